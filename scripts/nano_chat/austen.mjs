// The paragraphs of Jane Austen's novels out of Debian's r-cran-janeaustenr.
//
// R keeps them in a lazy-load file: one after another, each as its inflated size in four bytes and
// a zlib stream, which holds one object in R's external form, a vector of the novel's lines.
import { readFileSync } from 'node:fs';
import { inflateSync } from 'node:zlib';

const kStringVector = 16;

// "X\n", version and two release numbers, then the object: flags, length, strings. Version 3 adds
// the name of the encoding.
function readStrings(object) {
  if (object.toString('latin1', 0, 2) !== 'X\n') throw new Error('not R\'s external form');
  let at = 2;
  const next = () => { at += 4; return object.readInt32BE(at - 4); };
  const version = next();
  at += 8;
  const encoding = version >= 3 ? next() : 0;
  at += encoding;
  if ((next() & 0xff) !== kStringVector) return [];
  const out = [];
  for (let count = next(); count > 0; --count) {
    next();  // flags of the string
    const bytes = Math.max(next(), 0);
    out.push(object.toString('utf8', at, at + bytes));
    at += bytes;
  }
  return out;
}

// Lines to paragraphs of plain prose: no headings, no poems, no letters' heads.
function paragraphsOf(lines) {
  return lines.join('\n').split(/\n\s*\n/).map((p) => p.replace(/\s+/g, ' ').trim())
    .filter((p) => p.length >= 120 && p.length <= 900 && /^["A-Z]/.test(p) && /[.!?"]$/.test(p))
    .map((p) => p.replace(/_/g, '').replace(/--/g, ' - '));
}

export function readAusten(file) {
  const bytes = readFileSync(file);
  const out = [];
  for (let at = 0; at < bytes.length;) {
    const { buffer, engine } = inflateSync(bytes.subarray(at + 4), { info: true });
    out.push(...paragraphsOf(readStrings(buffer)));
    at += 4 + engine.bytesWritten;
  }
  return out;
}
