// The World Factbook's country files to a dozen plain values a country.
//
// Independent countries only: a file with a capital and no dependency status. Numbers are rounded
// to two figures, because that is what a small model can keep and a reader wants.
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { kCorrections, kNames, kNeighbourNames } from './country_names.mjs';

const kRegionsLeftOut = ['antarctica', 'meta', 'oceans', 'world'];

// A value is {text} or, for countries with parts far away, {part: {text}}: the first part is meant.
function textOf(value) {
  if (value === undefined || value === null) return null;
  if (typeof value.text === 'string') return value.text;
  for (const part of Object.values(value)) if (typeof part?.text === 'string') return part.text;
  return null;
}

const withoutBrackets = (text) => text.replace(/\s*\([^()]*\)/g, '').replace(/\s*\([^()]*\)/g, '');

// "between A and B (x, y), C 1,034 km" at commas and semicolons outside brackets and numbers.
function splitList(text) {
  const out = [''];
  let depth = 0;
  for (let i = 0; i < text.length; ++i) {
    if (text[i] === '(') ++depth;
    if (text[i] === ')') --depth;
    if (depth === 0 && /^[,;](?!\d)/.test(text.slice(i, i + 2))) out.push('');
    else out[out.length - 1] += text[i];
  }
  return out.map((item) => item.trim()).filter(Boolean);
}

const firstNumber = (text) => {
  const match = text?.match(/[\d][\d,.]*/);
  if (!match) return null;
  const value = Number(match[0].replace(/,/g, ''));
  return /^\s*million/.test(text.slice(match.index + match[0].length)) ? value * 1e6 : value;
};

// Two figures: 39542166 -> "40 million", 93520 -> "94,000", 453 -> "450", 0.44 -> "0.44".
export function roundNumber(value) {
  if (value < 10) return String(value);
  const step = 10 ** (Math.floor(Math.log10(value)) - 1);
  const round = Math.round(value / step) * step;
  const scaled = (unit) => String(Number((round / unit).toPrecision(2)));
  if (round >= 1e9) return `${scaled(1e9)} billion`;
  if (round >= 1e6) return `${scaled(1e6)} million`;
  return String(round).replace(/\B(?=(\d{3})+$)/g, ',');
}

// "Arabic (official), French (lingua franca)" -> the official ones, else the first; three at most.
export function languagesOf(text) {
  if (!text) return null;
  const name = (item) => withoutBrackets(item).replace(/\s+(or|and)\s.*$/, '')
    .replace(/\s*\d.*$/, '').replace(/\s+(only|widely|is|in)\b.*$/, '').trim();
  const items = splitList(text);
  const official = items.filter((item) => /\(official|official\)/.test(item)).map(name);
  const names = (official.length > 0 ? official : items.slice(0, 1).map(name))
    .filter((n) => /^[A-Z][A-Za-z' -]*$/.test(n));
  return names.length > 0 ? [...new Set(names)].slice(0, 3) : null;
}

export function currencyOf(text) {
  if (!text) return null;
  if (/^the US dollar/.test(text)) return 'US dollars';
  const match = text.match(/^(.*?)\s+per US dollar/);
  if (!match) return null;
  return withoutBrackets(match[1]).replace(/^Communaute Financiere Africaine/, 'CFA')
    .replace(/^Cooperation Financiere en Afrique Centrale/, 'CFA').split('/')[0];
}

// The part of the world, as it follows "lies in".
export function locationOf(text) {
  if (!text) return null;
  const place = splitList(text)[0].split(/ bordering | between /)[0]
    .replace(/^interior |^south (?=C)/, '').replace('north-eastern', 'Northeastern')
    .replace('Southeast Europe', 'Southeastern Europe').replace('North Asia', 'Northern Asia')
    .replace(/^\w+ (?=(North|South) America)/, '').replace(/^(?=Caribbean|Middle East)/, 'the ');
  return /^(the )?[A-Z][A-Za-z-]*( [A-Z][a-z]*)*$/.test(place) ? place : null;
}

export function capitalOf(text) {
  if (!text) return null;
  const name = withoutBrackets(text).split(/[;:]| in Romanian|, DC/)[0].trim();
  return /^[A-Z][A-Za-z' -]*$/.test(name) ? name : null;
}

// "Libya 989 km, Spain (Ceuta) 8 km" -> names as they stand there.
function neighbourNames(text) {
  return splitList(text ?? '')
    .map((item) => withoutBrackets(item).replace(/\s+[\d.,]+\s*km.*$/, ''));
}

function readCountry(file) {
  const country = JSON.parse(readFileSync(file, 'utf8'));
  const { Geography: land = {}, Government: rule = {}, Economy: trade = {} } = country;
  const people = country['People and Society'] ?? {};
  const population = firstNumber(textOf(people.Population));
  const names = rule['Country name'];
  if (rule['Dependency status'] || !rule.Capital || !names || !population) return null;
  const short = textOf(names['conventional short form']);
  const key = short && short !== 'none' ? short : textOf(names['conventional long form']);
  const name = kNames[key] ?? key;
  if (!name || name === 'Western Sahara') return null;
  const area = firstNumber(textOf(land.Area?.total) ?? textOf(land.Area));
  return {
    name,
    capital: capitalOf(textOf(rule.Capital.name)),
    population: roundNumber(population),
    area: area ? roundNumber(area) : null,
    languages: languagesOf(textOf(people.Languages)),
    currency: currencyOf(textOf(trade['Exchange rates'])),
    location: locationOf(textOf(land.Location)),
    names: neighbourNames(land['Land boundaries']?.['border countries']?.text),
    ...kCorrections[name],
  };
}

// All countries, in the alphabet's order, each with `borders`: the names of its neighbours.
//
// A border counts where either side lists it: France's own list is that of French Guiana.
export function readFactbook(folder) {
  const countries = [];
  for (const region of readdirSync(folder).sort()) {
    const path = join(folder, region);
    if (kRegionsLeftOut.includes(region) || !statSync(path).isDirectory()) continue;
    for (const file of readdirSync(path).filter((f) => f.endsWith('.json')).sort()) {
      const country = readCountry(join(path, file));
      if (country) countries.push(country);
    }
  }
  const known = (name) => kNeighbourNames[name] ?? kNames[name] ?? name;
  for (const country of countries) {
    const mine = country.names.map(known);
    country.borders = countries.filter((c) => mine.includes(c.name)
      || c.names.map(known).includes(country.name)).map((c) => c.name).sort();
  }
  for (const country of countries) delete country.names;
  const bare = (name) => name.replace(/^the /, '');
  return countries.sort((a, b) => (bare(a.name) < bare(b.name) ? -1 : 1));
}
