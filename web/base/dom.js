// Nodes are built here and nowhere from markup: what a person or a model wrote only ever becomes
// text.

export const $ = (id) => document.getElementById(id);

// Children are nodes or texts; undefined ones are left out.
export function element(name, className = '', ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children.filter((child) => child !== undefined));
  return made;
}

export function button(label, className, onClick) {
  const made = element('button', className, label);
  made.type = 'button';
  made.addEventListener('click', onClick);
  return made;
}

// A button that shows a picture and is called `label`.
export function iconButton(name, label, onClick) {
  const made = button('', 'icon', onClick);
  setIcon(made, name, label);
  return made;
}

export function setIcon(target, name, label) {
  target.replaceChildren(icon(name));
  target.setAttribute('aria-label', label);
  target.title = label;
}

const kSvg = 'http://www.w3.org/2000/svg';

export function svg(name, attributes = {}) {
  const made = document.createElementNS(kSvg, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

// Strokes in a square of 24.
const kIcons = {
  menu: 'M4 6h16M4 12h16M4 18h10',
  plus: 'M12 5v14M5 12h14',
  close: 'M6 6l12 12M18 6L6 18',
  pencil: 'M4 20l1-4L16 5l3 3L8 19zM14 7l3 3',
  trash: 'M5 7h14M9 7V4h6v3M7 7l1 13h8l1-13M10.5 11v5M13.5 11v5',
  copy: 'M9 9h11v11H9zM5 15H4V4h11v1',
  check: 'M5 13l4 4L19 7',
  again: 'M20 11a8 8 0 1 0-2 6M20 5v6h-6',
  left: 'M15 5l-7 7 7 7',
  right: 'M9 5l7 7-7 7',
  down: 'M6 9l6 6 6-6',
  sun: 'M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2v3M12 19v3M2 12h3M19 12h3M5 5l2 2M17 17l2 2M5 19l2-2'
    + 'M17 7l2-2',
  moon: 'M20 14A8.5 8.5 0 0 1 10 4a8.5 8.5 0 1 0 10 10z',
  half: 'M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zM12 3v18M15 5v14M18 7v10',
  gear: 'M4 7h9M17 7h3M4 17h3M11 17h9M15 4.5v5M9 14.5v5',
  chart: 'M4 20V4M4 20h16M8 16v-5M12 16V7M16 16v-3',
  wrench: 'M20 7a5 5 0 0 1-7 5l-7 7-3-3 7-7a5 5 0 0 1 7-6l-3 3 1 2 2 1z',
  stop: 'M7 7h10v10H7z',
  send: 'M12 19V5M6 11l6-6 6 6',
  thought: 'M12 3a6 6 0 0 0-3.5 10.9V17h7v-3.1A6 6 0 0 0 12 3zM9.5 20.5h5',
};

export function icon(name) {
  const made = svg('svg', { viewBox: '0 0 24 24', 'aria-hidden': 'true', class: 'glyph' });
  made.append(svg('path', { d: kIcons[name] }));
  return made;
}

// Puts pictures into the buttons of the page that ask for one by data-icon.
export function fillIcons() {
  for (const target of document.querySelectorAll('[data-icon]')) {
    target.prepend(icon(target.dataset.icon));
  }
}

// Copies, and says on the button whether that worked.
export async function copyText(text, from) {
  const before = [...from.childNodes];
  const pictured = from.classList.contains('icon');
  try {
    await navigator.clipboard.writeText(text);
    from.replaceChildren(pictured ? icon('check') : 'Copied');
    announce('Copied');
  } catch {
    from.replaceChildren(pictured ? icon('close') : 'No access to the clipboard');
    announce('No access to the clipboard');
  }
  setTimeout(() => from.replaceChildren(...before), 1500);
}

// For those who do not see the page: said when nothing else is being said.
export function announce(text) {
  $('status').textContent = text;
}

const kSpokenMax = 20;  // paragraphs that are kept

// The same for text that comes piece by piece: a piece does not replace the one before it.
export function speak(text) {
  $('spoken').append(element('p', '', text));
  while ($('spoken').children.length > kSpokenMax) $('spoken').firstChild.remove();
}
