// A part of Markdown as nodes: paragraphs, headings, lists, quotes, tables, rules, code. Raw markup
// stays text, and an address leads to http or https only.
import { button, copyText, element } from './dom.js';

// Each repetition is bounded, so that no text of a model makes the search slow.
const kInline = new RegExp([
  /(`{1,8})([^`]|[^`][\s\S]{0,2000}?[^`])\1(?!`)/,          // `code`
  /\*\*([^\s*](?:[\s\S]{0,1000}?[^\s])?)\*\*/,              // **strong**
  /\*([^\s*][^*]{0,1000}?)\*/,                              // *emphasis*
  /~~([^\s~][^~]{0,1000}?)~~/,                              // ~~struck~~
  /\[([^\]\n]{1,300})\]\((https?:\/\/[^\s)]{1,2000})\)/,    // [label](address)
  /(https?:\/\/[^\s<>"')\]]{1,2000}[^\s<>"')\].,;:!?])/,
].map((part) => part.source).join('|'), 'g');

function link(label, address) {
  const made = element('a', '', label);
  made.href = address;
  made.target = '_blank';
  made.rel = 'noopener noreferrer nofollow';
  return made;
}

function inlineNode([, , code, strong, emphasis, struck, label, target, bare]) {
  if (code !== undefined) return element('code', '', code.trim() || code);
  if (strong !== undefined) return inline(strong, element('strong'));
  if (emphasis !== undefined) return inline(emphasis, element('em'));
  if (struck !== undefined) return inline(struck, element('s'));
  return link(label ?? bare, target ?? bare);
}

function inline(text, parent) {
  let end = 0;
  for (const match of text.matchAll(kInline)) {
    parent.append(text.slice(end, match.index), inlineNode(match));
    end = match.index + match[0].length;
  }
  parent.append(text.slice(end));
  return parent;
}

const kItem = /^( {0,12})([-*+]|\d{1,9}[.)]) +(.*)$/;

// Source text of the blocks, so that a block that did not change keeps its node.
export function blocks(text) {
  const found = [];
  let lines = [];
  let fence = '';
  const close = () => {
    if (lines.length) found.push(lines.join('\n'));
    lines = [];
  };
  for (const line of text.split('\n')) {
    const mark = line.match(/^ {0,3}(`{3,}|~{3,})/)?.[1];
    if (fence) {
      lines.push(line);
      if (mark?.startsWith(fence) && !line.trim().slice(mark.length)) {
        fence = '';
        close();
      }
    } else if (mark) {
      close();
      fence = mark;
      lines.push(line);
    } else if (!line.trim()) {
      close();
    } else if (/^ {0,3}(#{1,6} |([-*_] *){3,}$)/.test(line)) {
      close();
      found.push(line);
    } else {
      // A list may begin right under a paragraph.
      if (kItem.test(line) && lines.length && !kItem.test(lines[0])) close();
      lines.push(line);
    }
  }
  close();
  return found;
}

function codeBlock(source) {
  const [first, ...rest] = source.split('\n');
  const mark = first.trim().match(/^(`+|~+)/)[1];
  if (rest.length && rest.at(-1).trim().startsWith(mark)) rest.pop();
  return codeBox(first.trim().slice(mark.length).trim() || 'text', rest.join('\n'));
}

// Text as it is, under a title, with a button that copies it.
export function codeBox(title, text) {
  const copy = button('Copy', 'quiet', () => copyText(text, copy));
  const pre = element('pre', '', element('code', '', text));
  pre.tabIndex = 0;  // scrolls with the keyboard
  pre.setAttribute('role', 'region');
  pre.setAttribute('aria-label', title);
  return element('div', 'code', element('div', 'code-head', element('span', '', title), copy), pre);
}

// Items that stand further in than their list's first are a list within the item before.
function list(lines) {
  const [, indent, mark] = lines[0].match(kItem);
  const ordered = /\d/.test(mark);
  const made = element(ordered ? 'ol' : 'ul');
  if (ordered) made.start = Number.parseInt(mark, 10);
  let inner = [];
  const close = () => {
    if (inner.length) made.lastChild.append(list(inner));
    inner = [];
  };
  for (const line of lines) {
    const item = line.match(kItem);
    if (item && (item[1].length >= indent.length + 2 || (inner.length && item[1].length
        > indent.length))) {
      inner.push(line);
    } else if (item) {
      close();
      made.append(inline(item[3], element('li')));
    } else if (inner.length) {
      inner.push(line);
    } else {
      inline(`\n${line.trim()}`, made.lastChild);
    }
  }
  close();
  return made;
}

const kTableRule = /^ {0,3}\|?( *:?-+:? *\|)+ *(:?-+:? *)?$/;

const cells = (line) =>
  line.trim().replace(/^\||\|$/g, '').split('|').map((cell) => cell.trim());

function table([head, , ...rows]) {
  const titles = cells(head);
  const row = (name, texts) => element('tr', '',
    ...titles.map((_, i) => inline(texts[i] ?? '', element(name))));
  const made = element('table', '', element('thead', '', row('th', titles)),
    element('tbody', '', ...rows.map((line) => row('td', cells(line)))));
  const box = element('div', 'table', made);
  box.tabIndex = 0;  // scrolls with the keyboard
  return box;
}

function block(source) {
  if (/^ {0,3}(`{3,}|~{3,})/.test(source)) return codeBlock(source);
  const heading = source.match(/^ {0,3}(#{1,6}) +(.*)$/);
  if (heading) return inline(heading[2], element(`h${Math.min(heading[1].length + 2, 5)}`));
  if (/^ {0,3}([-*_] *){3,}$/.test(source)) return element('hr');
  const lines = source.split('\n');
  if (kItem.test(lines[0])) return list(lines);
  if (lines[0].includes('|') && kTableRule.test(lines[1] ?? '')) return table(lines);
  if (/^ {0,3}>/.test(source)) {
    return inline(source.replace(/^ {0,3}> ?/gm, ''), element('blockquote'));
  }
  return inline(source, element('p'));
}

// Shows `text` in `parent`; blocks that are there already stay. Returns the blocks' sources.
export function render(text, parent) {
  const wanted = blocks(text);
  const have = parent.renderedBlocks ?? [];
  let same = 0;
  while (same < wanted.length && wanted[same] === have[same]) ++same;
  while (parent.childNodes.length > same) parent.lastChild.remove();
  for (const source of wanted.slice(same)) parent.append(block(source));
  parent.renderedBlocks = wanted;
  return wanted;
}
