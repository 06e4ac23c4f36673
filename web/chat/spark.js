// A small picture of how a figure went: bars or filled steps over time, drawn as SVG. Trivial
// enough to need no library; what it shows stands beside it as text.
import { svg } from '../base/dom.js';

const kWidth = 240;
const kHeight = 40;

function frame(label) {
  return svg('svg', {
    viewBox: `0 0 ${kWidth} ${kHeight}`, preserveAspectRatio: 'none', class: 'spark', role: 'img',
    'aria-label': label,
  });
}

// values: the newest last; `slots` of them fill the width.
export function bars(values, slots, label, className) {
  const made = frame(label);
  const most = Math.max(1, ...values);
  const width = kWidth / slots;
  values.forEach((value, i) => {
    if (value <= 0) return;
    const height = Math.max(2, value / most * (kHeight - 2));
    made.append(svg('rect', {
      x: ((slots - values.length + i) * width).toFixed(2), y: (kHeight - height).toFixed(2),
      width: (width * .8).toFixed(2), height: height.toFixed(2), class: className,
    }));
  });
  return made;
}

// layers: lists of equal length, drawn on top of each other, the first at the bottom; `most` is the
// full height.
export function area(layers, slots, most, label, classNames) {
  const made = frame(label);
  const width = kWidth / (slots - 1);
  const count = layers[0].length;
  const x = (i) => ((slots - count + i) * width).toFixed(2);
  const y = (value) => (kHeight - value / Math.max(1, most) * kHeight).toFixed(2);
  let floor = new Array(count).fill(0);
  layers.forEach((layer, which) => {
    const top = layer.map((value, i) => floor[i] + value);
    const there = top.map((value, i) => `${x(i)},${y(value)}`);
    const back = floor.map((value, i) => `${x(i)},${y(value)}`).reverse();
    made.append(svg('polygon', { points: [...there, ...back].join(' '),
      class: classNames[which] }));
    floor = top;
  });
  return made;
}
