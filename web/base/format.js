// Figures as a person reads them.

const kUnits = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];

export function bytesText(bytes) {
  let unit = 0;
  let value = bytes;
  for (; value >= 1024 && unit + 1 < kUnits.length; ++unit) value /= 1024;
  return `${value.toLocaleString('en', { maximumSignificantDigits: 4 })} ${kUnits[unit]}`;
}

export const countText = (value, digits = 6) =>
  value.toLocaleString('en', { maximumSignificantDigits: digits });

export const wholeText = (value) => Math.round(value).toLocaleString('en');

export const rateText = (value) => (value < 100 ? value.toFixed(1) : wholeText(value));

export const plural = (count, one, many = `${one}s`) =>
  `${wholeText(count)} ${count === 1 ? one : many}`;

export function secondsText(ms) {
  if (ms >= 100_000) return `${Math.floor(ms / 60_000)} min ${Math.round(ms % 60_000 / 1000)} s`;
  return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 0)} s`;
}
