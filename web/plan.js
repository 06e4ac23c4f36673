// The planner's page: sliders ask the server for a plan and show its figures and charts.
//
// All arithmetic is the server's (GET /v1/plan); the page only asks, and keeps the wishes in the
// address so that a plan can be sent to somebody.
import { $, element } from './base/dom.js';
import { bytesText, countText } from './base/format.js';

const kSteps = 200;   // of a slider, whose positions are powers between low and high
const kWaitMs = 120;  // after the last movement
const kTitles = {
  context: 'Tokens a context', memory: 'Memory for contexts', contexts: 'Contexts at once',
  ram: "The machine's memory", 'dram-gbps': 'Memory, GB/s', 'gflops-bf16': 'BF16, GFLOP/s',
  'ssd-gbps': 'Disk, GB/s', hit: 'Cached tokens', new: 'New tokens', tier: 'Disk of the tier',
  'write-rate': 'New tokens a second', 'snapshot-rate': 'Snapshots a minute', ttl: 'Minutes kept',
  'link-gbps': 'Link, GB/s', 'link-latency': 'Link latency, µs', latent: 'Values of a main row',
  modes: 'Layers, as 2xS,F2,5xU,F1,3xU,R',
};

const wishes = new URLSearchParams(location.hash.slice(1));
let fields = [];
let asked = 0;  // requests so far: only the last one's answer is shown

function headers() {
  try {
    const { apiKey } = JSON.parse(localStorage.getItem('thimble.settings') ?? '{}');
    return apiKey ? { Authorization: `Bearer ${apiKey}` } : {};
  } catch {
    return {};
  }
}

// A slider's value as the server takes it, and as a person reads it.
function valueAt(field, position) {
  const value = field.low * (field.high / field.low) ** (position / kSteps);
  if (field.kind === 'bytes') {
    const gib = Math.max(1, Math.round(value / 2 ** 30));
    return { sent: `${gib}GiB`, shown: bytesText(gib * 2 ** 30) };
  }
  if (field.kind === 'count') {
    const whole = Math.max(1, Math.round(value));
    return { sent: String(whole), shown: countText(whole, 8) };
  }
  const rounded = Number(value.toPrecision(3));
  return { sent: String(rounded), shown: countText(rounded) };
}

// Where a value that the server sent lies on its slider.
function positionOf(field, text) {
  const parts = /^([\d.]+)(GiB|GB)?$/.exec(text);
  if (!parts) return 0;
  const value = Number(parts[1]) * ({ GiB: 2 ** 30, GB: 1e9 }[parts[2]] ?? 1);
  const at = Math.log(value / field.low) / Math.log(field.high / field.low);
  return Math.round(Math.min(1, Math.max(0, at)) * kSteps);
}

function addSlider(field) {
  const id = `field-${field.name}`;
  const label = element('label', 'slider', kTitles[field.name] ?? field.name);
  label.htmlFor = id;
  label.title = field.help;
  const range = element('input');
  Object.assign(range, { id, type: 'range', min: 0, max: kSteps, step: 1 });
  const output = element('output');
  output.htmlFor = id;
  const show = () => {
    const text = wishes.get(field.name) ?? field.default;
    range.value = positionOf(field, text);
    output.textContent = wishes.has(field.name) ? valueAt(field, range.value).shown
      : text === '' || text === '0' ? "the model's" : text;
    if (['ram', 'dram-gbps', 'gflops-bf16', 'ssd-gbps'].includes(field.name) && text === '') {
      output.textContent = "the machine's";
    }
    range.setAttribute('aria-valuetext', output.textContent);
  };
  range.addEventListener('input', () => {
    const value = valueAt(field, Number(range.value));
    wishes.set(field.name, value.sent);
    output.textContent = value.shown;
    range.setAttribute('aria-valuetext', value.shown);
    refreshSoon();
  });
  show();
  label.append(output, range);
  $('sliders').append(label);
}

// A wish that is a text: sent once it was finished.
function addText(field) {
  const label = element('label', '', kTitles[field.name] ?? field.name);
  label.title = field.help;
  const input = element('input');
  Object.assign(input, { id: `field-${field.name}`, type: 'text', spellcheck: false,
    autocomplete: 'off', placeholder: "the model's", value: wishes.get(field.name) ?? '' });
  label.htmlFor = input.id;
  input.addEventListener('change', () => {
    if (input.value.trim() === '') wishes.delete(field.name);
    else wishes.set(field.name, input.value);
    refresh();
  });
  label.append(input);
  $('sliders').append(label);
}

function addFields() {
  $('sliders').replaceChildren();
  for (const field of fields) {
    if (field.high) addSlider(field);
    if (field.name === 'modes') addText(field);
  }
}

function facts(title, rows) {
  const section = element('div', 'facts-table');
  section.append(element('h2', '', title));
  const list = element('dl');
  for (const [name, value] of rows) {
    list.append(element('dt', '', name), element('dd', '', value));
  }
  section.append(list);
  return section;
}

function ledgerFacts(plan) {
  const rows = [['Global KV a token', `${countText(plan.ledger.global_kv_bytes_per_token)} B`],
    ['Derivation', plan.ledger.derivation]];
  if (plan.ledger.checkpoint_bytes) {
    rows.push(['Windows a sequence', bytesText(plan.ledger.window_bytes)],
      ['A snapshot', bytesText(plan.ledger.snapshot_bytes)],
      ['Checkpoint', `${countText(plan.ledger.checkpoint_bytes, 15)} B`],
      ...plan.ledger.checkpoint.map((part) => [`of it ${part.part}`,
        `${countText(part.bytes, 15)} B`]));
  } else {
    rows.push(['Not planned', plan.not_planned]);
  }
  return facts('Ledger', rows);
}

const generationFacts = (plan) => facts('Generations, bytes a token',
  plan.generations.map((design) => [design.name, design.formula]));

function attributionFacts(plan) {
  const { lattice, sharing_factor: sharing, format_factor: format } = plan.attribution;
  const unshared = lattice.find((p) => !p.shared && p.compressed && p.format === 'FP8');
  return facts('Attribution', [['Layers', plan.modes],
    ['FP8 in every layer', `${countText(unshared.payload_bytes_per_token)} B, with scales `
      + `${countText(unshared.bytes_per_token)} B`],
    ['Sharing divides by', countText(sharing, 3)],
    ['FP4 then divides by', countText(format, 2)]]);
}

function capacityFacts(plan) {
  const { contexts } = plan.capacity;
  const tier = plan.capacity.persistent_tier;
  const count = countText(plan.capacity.context_tokens, 8);
  return facts('Capacity', [
    [`Contexts of ${count} tokens`, countText(contexts.with_windows, 8)],
    ['By entries alone', countText(contexts.by_entries, 8)],
    ...'in_blocks' in contexts ? [['In whole blocks', countText(contexts.in_blocks, 8)]] : [],
    ['The tier keeps a token', `${countText(tier.retention_hours, 4)} h`],
    ['Snapshots take', bytesText(plan.capacity.snapshots.bytes)],
  ]);
}

function fasterText({ break_even_tokens: tokens }) {
  if (tokens === 0) return 'never faster';
  return tokens === 1 ? 'faster from the first token on'
    : `faster from ${countText(tokens, 8)} tokens on`;
}

function speedFacts(plan) {
  const { placement, transfer, flops } = plan;
  const speed = (s) => s.seconds > 0 ? `${countText(s.tokens_per_second, 3)} tokens/s (${s.bound})`
    : 'not possible';
  const rows = [
    ['Fits', placement.fits ? 'yes' : `no, ${bytesText(placement.missing_bytes)} short`],
    ['Experts in memory', `${countText(100 * placement.experts_resident, 3)} %`],
    ['Decoding, as placed', speed(placement.as_placed)],
    ['All experts in memory', speed(placement.all_experts_resident)],
    ['No expert in memory', speed(placement.no_expert_resident)],
    ['Next', `${placement.what_next[0].change}: `
      + `${countText(placement.what_next[0].tokens_per_second, 3)} tokens/s`],
    ['Weights a decoded token reads', bytesText(
      Object.values(flops.bytes_per_decoded_token.weights).reduce((a, b) => a + b, 0))],
    ['Prefill to decode', `${bytesText(transfer.bytes)}, ${fasterText(transfer)}`],
  ];
  return facts('Speed, at the roofs', rows);
}

function operationFacts(plan) {
  const { activated_parameters: active, decode_growth: growth, decode } = plan.flops;
  const billions = (value) => `${countText(value * 1e-9, 4)}e9`;
  const of = (point) => `${billions(point.ops.total)}, weighted ${billions(point.ops.weighted)}`;
  const first = decode[0];
  const last = decode[decode.length - 1];
  return facts('Operations', [
    ['Active parameters, prefill', billions(active.prefill)],
    ['Active parameters, decode', billions(active.decode)],
    [`A token after ${countText(first.context, 8)}`, of(first)],
    [`A token after ${countText(last.context, 8)}`, of(last)],
    ['Growth', `${countText(growth.weighted, 3)} weighted, ${countText(growth.unweighted, 3)} not`],
  ]);
}

const placementFacts = (plan) => facts('Placement', plan.placement.lines.map((line) => [line.what,
  [['card', line.gpu_bytes], ['memory', line.ram_bytes], ['disk', line.ssd_bytes]]
    .filter(([, bytes]) => bytes > 0)
    .map(([where, bytes]) => `${bytesText(bytes)} ${where}`).join(', ') || 'nothing']));

function replayFacts(plan) {
  const { asked } = plan.replay;
  const cost = (c) => `${countText(c.layer_tokens, 8)} layer-tokens, `
    + `${countText(c.ops * 1e-12, 3)}e12 operations`;
  const after = `new tokens after ${countText(plan.replay.hit, 8)}`;
  return facts(`${countText(asked.new_tokens, 8)} ${after}`, [
    ['From a snapshot', cost(asked.snapshot)], ['Bounded', cost(asked.bounded)],
    ['Auto', cost(asked.auto)], ['Exact', cost(asked.exact)],
    ['Without the hit', cost(asked.cold)]]);
}

const kCharts = {
  generations: 'Bytes of global KV a token, by generation',
  concurrency: 'Contexts against their length', attribution: 'What sharing and formats save',
  decode: 'Operations of a decoded token', replay: 'What replay costs',
};

// Pictures stay where they are and change their content, so that nothing jumps.
function showCharts(charts) {
  for (const [name, alt] of Object.entries(kCharts)) {
    let image = $(`chart-${name}`);
    if (!image) {
      image = element('img');
      Object.assign(image, { id: `chart-${name}`, alt, width: 820 });
      $('charts').append(image);
    }
    image.hidden = !charts[name];
    if (charts[name]) image.src = `data:image/svg+xml,${encodeURIComponent(charts[name])}`;
  }
}

function show(plan) {
  $('source').textContent = plan.source;
  const parts = [ledgerFacts(plan), capacityFacts(plan)];
  if (plan.placement) parts.push(speedFacts(plan), replayFacts(plan));
  parts.push(generationFacts(plan));
  if (plan.attribution) parts.push(attributionFacts(plan));
  if (plan.placement) parts.push(placementFacts(plan), operationFacts(plan));
  $('figures').replaceChildren(...parts);
  showCharts(plan.charts ?? {});
}

function build(plan) {
  fields = plan.fields;
  for (const machine of plan.machines) {
    const option = element('option', '', `${machine.name}: ${machine.what}`);
    option.value = machine.name;
    $('machine').append(option);
  }
  showSelects();
  addFields();
}

function showSelects() {
  $('config').value = wishes.get('config') ?? 'released';
  $('machine').value = wishes.get('machine') ?? 'desktop';
}

async function refresh() {
  const mine = ++asked;
  $('figures').setAttribute('aria-busy', 'true');
  const query = new URLSearchParams(wishes);
  if (!query.has('config')) query.set('config', 'released');
  query.set('charts', '1');
  history.replaceState(null, '', wishes.size ? `#${wishes}` : location.pathname);
  let notice = '';
  try {
    const response = await fetch(`/v1/plan?${query}`, { headers: headers() });
    const body = await response.json();
    if (mine !== asked) return;
    if (response.ok) {
      if (fields.length === 0) build(body);
      show(body);
    } else {
      notice = body.error.message;
    }
  } catch (error) {
    notice = `The server does not answer: ${error.message}`;
  }
  if (mine !== asked) return;
  $('notice').textContent = notice;
  $('notice').hidden = notice === '';
  $('figures').setAttribute('aria-busy', 'false');
}

let timer;
function refreshSoon() {
  clearTimeout(timer);
  timer = setTimeout(refresh, kWaitMs);
}

for (const name of ['config', 'machine']) {
  $(name).addEventListener('change', () => {
    wishes.set(name, $(name).value);
    refresh();
  });
}
$('reset').addEventListener('click', () => {
  for (const name of [...wishes.keys()]) wishes.delete(name);
  showSelects();
  addFields();
  refresh();
});
$('wishes').addEventListener('submit', (event) => event.preventDefault());
refresh();
