// Drives encode_tool.
import {execFileSync} from 'node:child_process';
import {mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';

// Assigned code points, ascending, without surrogates and private use beyond a few.
export function assignedCodePoints(tool) {
  const unassigned = execFileSync(tool, ['--unassigned'], {encoding: 'utf8'}).trim().split('\n')
      .map((line) => line.split(' ').map((hex) => parseInt(hex, 16)));
  const skipped = [...unassigned, [0xD800, 0xDFFF], [0xE010, 0xF8FF], [0xF0010, 0x10FFFF]]
      .sort((a, b) => a[0] - b[0]);
  const codePoints = [];
  let next = 0;
  for (const [first, last] of skipped) {
    for (; next < first; ++next) codePoints.push(next);
    next = Math.max(next, last + 1);
  }
  return codePoints;
}

export function ourIds(tool, model, texts) {
  const folder = mkdtempSync(join(tmpdir(), 'thimble-tokenizer-'));
  try {
    const parts = texts.flatMap((text) => {
      const bytes = Buffer.from(text, 'utf8');
      const length = Buffer.alloc(4);
      length.writeUInt32LE(bytes.length);
      return [length, bytes];
    });
    writeFileSync(join(folder, 'texts'), Buffer.concat(parts));
    execFileSync(tool, [model, join(folder, 'texts'), join(folder, 'ids')]);
    const ids = readFileSync(join(folder, 'ids'));
    let at = 0;
    return texts.map(() => {
      const count = ids.readUInt32LE(at);
      const list = new Int32Array(ids.buffer.slice(ids.byteOffset + at + 4,
                                                   ids.byteOffset + at + 4 + 4 * count));
      at += 4 + 4 * count;
      return list;
    });
  } finally {
    rmSync(folder, {recursive: true});
  }
}
