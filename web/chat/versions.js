// "2 of 3", with a step to either side: the versions of a turn.
import { element, iconButton } from '../base/dom.js';

// Nothing where there is one version only.
export function versionSwitch(turn, versions, choose) {
  if (versions.length < 2) return undefined;
  const at = versions.indexOf(turn);
  const step = (name, label, to) => {
    const made = iconButton(name, label, () => choose(versions[to]));
    made.disabled = !versions[to];
    return made;
  };
  const made = element('span', 'versions', step('left', 'Earlier version', at - 1),
    element('span', '', `${at + 1} of ${versions.length}`),
    step('right', 'Later version', at + 1));
  made.setAttribute('role', 'group');
  made.setAttribute('aria-label', 'Versions');
  return made;
}
