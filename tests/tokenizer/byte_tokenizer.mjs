// Aim: the tokenizer that `thimble init` writes is loaded by the reference implementation too, and
// both give the same ids. Method: encode_tool writes the file; both encode mixed texts.
//
//   node byte_tokenizer.mjs ENCODE_TOOL OUT.json
import {execFileSync} from 'node:child_process';
import {writeFileSync} from 'node:fs';

import {ourIds} from './encode_tool.mjs';
import {loadReference} from './reference.mjs';

const [tool, model] = process.argv.slice(2);
writeFileSync(model, execFileSync(tool, ['--byte-tokenizer']));
const reference = await loadReference(model);
const texts = [
  'Hello, world!', 'naïve café 🙂', '\0\n\t  x', '<｜User｜>Hi<｜Assistant｜></think>',
  '<｜begin▁of▁sentence｜><think>｜DSML｜<｜deepseek_image｜>', '你好。タワー 12345',
];
const ours = ourIds(tool, model, texts);
let failed = 0;
for (const [i, text] of texts.entries()) {
  const theirs = await reference.encode(text);
  if ([...ours[i]].join() !== theirs.join()) {
    console.error(`${JSON.stringify(text)}: ours ${[...ours[i]]}, theirs ${theirs}`);
    ++failed;
  }
  const decoded = await reference.decode(theirs);
  if (decoded !== text) {
    console.error(`${JSON.stringify(text)}: decoded as ${JSON.stringify(decoded)}`);
    ++failed;
  }
}
console.log(`${texts.length} texts, ${failed} differ`);
process.exit(failed > 0 ? 1 : 0);
