// Words and countries that nano-chat must not know: invented ones, and real words it was not
// taught.
//
// Invented names are spelt from syllables; a hash of the spelling decides whether one is for
// training or held out, so that the test never asks what was trained.
import { hash } from './rng.mjs';
import { countryFollow, countryQuestions, countryTopic, kAskedKinds, wordFollow, wordQuestions }
  from './facts.mjs';
import { kLargeSum, kUnknownCountry, kUnknownWord } from './talk.mjs';
import { largeSum } from './sums.mjs';

const kOnsets = ('b bl br c cr d dr f fl fr g gl gr h j k kr l m n p pl pr qu r s sk sl sn sp st t '
  + 'tr v w y z zr').split(' ');
const kVowels = ['a', 'e', 'i', 'o', 'u', 'oo', 'ee', 'ai', 'ou'];
const kCodas = ['', '', ...'b d g k l m n nk p r rm rt s sh t x zz lb'.split(' ')];
const kWordEnds = ['', '', 'er', 'ish', 'le', 'ment', 'ing', 'ous', 'y', 'ify', 'ness', 'on'];
const kCountryEnds = 'ia ia land stan ania ora istan avia onia ar una'.split(' ');
const kHeldOutOf = 10;

export const isHeldOut = (name) => hash(`held/${name.toLowerCase()}`) % kHeldOutOf === 0;

const stem = (rng) => rng.pick(kOnsets) + rng.pick(kVowels) + rng.pick(kCodas);

// An invented spelling that is no word of `taken`.
function invent(rng, ends, taken) {
  for (;;) {
    const name = stem(rng) + (rng.chance(0.5) ? stem(rng) : '') + rng.pick(ends);
    if (name.length >= 4 && name.length <= 11 && !taken.has(name)) return name;
  }
}

export class Unknowns {
  // `others` are real words that are not taught, `taken` all spellings that are words or countries.
  constructor(others, taken) {
    this.taken = taken;
    this.others = { true: others.filter(isHeldOut), false: others.filter((w) => !isHeldOut(w)) };
  }

  inventedWord(rng, heldOut) {
    return this.draw(rng, kWordEnds, heldOut);
  }

  inventedCountry(rng, heldOut) {
    const name = this.draw(rng, kCountryEnds, heldOut);
    return name[0].toUpperCase() + name.slice(1);
  }

  untaughtWord(rng, heldOut) {
    const words = this.others[heldOut];
    return words.length > 0 ? rng.pick(words) : this.inventedWord(rng, heldOut);
  }

  draw(rng, ends, heldOut) {
    for (;;) {
      const name = invent(rng, ends, this.taken);
      if (isHeldOut(name) === heldOut) return name;
    }
  }

  // One question that must be declined. `previous` is the kind of the turn before, if this is to
  // follow it up ("And Blorvia?").
  item(rng, heldOut, kind = rng.pick(['invented', 'invented', 'untaught', 'country', 'large']),
    previous = null) {
    if (kind === 'large') return largeItem(rng);
    if (kind === 'country') {
      const name = this.inventedCountry(rng, heldOut);
      const asked = previous ?? rng.pick(kAskedKinds);
      const questions = previous ? countryFollow(asked, name).other : countryQuestions(asked, name);
      return {
        kind: 'unknown country', question: rng.pick(questions), answer: kUnknownCountry,
        reasoning: [countryTopic(asked), 'I do not know that country.', 'I do not guess.'],
      };
    }
    const word = kind === 'invented' ? this.inventedWord(rng, heldOut)
      : this.untaughtWord(rng, heldOut);
    return {
      kind: kind === 'invented' ? 'unknown word' : 'untaught word',
      question: rng.pick(previous ? wordFollow(word) : wordQuestions(word)), answer: kUnknownWord,
      reasoning: ['A word is asked for.', 'I do not know it.', 'I do not guess.'],
    };
  }
}

function largeItem(rng) {
  return {
    kind: 'large sum', question: largeSum(rng), answer: kLargeSum,
    reasoning: ['A sum is asked for.', 'The numbers are large.', 'I do not guess.'],
  };
}
