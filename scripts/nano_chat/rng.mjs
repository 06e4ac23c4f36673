// Random numbers that a seed and a label decide, so that the data are the same on every machine.

// FNV-1a over UTF-16 units, then mixed: a 32-bit hash of a string.
export function hash(text) {
  let h = 0x811c9dc5;
  for (let i = 0; i < text.length; ++i) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}

export class Rng {
  // Streams of different labels are independent: one more draw here moves nothing there.
  constructor(seed, label) {
    this.state = hash(`${seed}/${label}`);
  }

  // [0, 1), mulberry32.
  uniform() {
    this.state = (this.state + 0x6d2b79f5) >>> 0;
    let t = this.state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  }

  // 0 .. count - 1.
  below(count) {
    return Math.floor(this.uniform() * count);
  }

  pick(list) {
    return list[this.below(list.length)];
  }

  chance(share) {
    return this.uniform() < share;
  }

  // A shuffled copy.
  shuffle(list) {
    const out = [...list];
    for (let i = out.length - 1; i > 0; --i) {
      const j = this.below(i + 1);
      [out[i], out[j]] = [out[j], out[i]];
    }
    return out;
  }
}
