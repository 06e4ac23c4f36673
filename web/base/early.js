// Runs before the first paint, and so is no module: gives the page the colours that were chosen, or
// the system's, so that nothing flashes. Style sheets only look at data-theme.
'use strict';

(() => {
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const apply = () => {
    let chosen = '';
    try {
      chosen = JSON.parse(localStorage.getItem('thimble.settings') ?? '{}')?.theme ?? '';
    } catch { /* blocked or broken storage: the system's */ }
    const system = dark.matches ? 'dark' : 'light';
    const known = ['light', 'dark'].includes(chosen);
    document.documentElement.dataset.theme = known ? chosen : system;
  };
  apply();
  dark.addEventListener('change', apply);
  addEventListener('storage', apply);
  addEventListener('thimble-theme', apply);  // the choice was changed on this page
})();
