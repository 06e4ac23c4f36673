// Small sums: all of them, with the steps a person would take.
//
// Reasoning is where effort shows: name the sum, take the step over the ten, check by the opposite.

const kAsk = {
  '+': ['What is {a} + {b}?', 'What is {a} plus {b}?', 'Add {a} and {b}.', '{a} + {b} = ?',
    'How much is {a} plus {b}?'],
  '-': ['What is {a} - {b}?', 'What is {a} minus {b}?', 'Take {b} from {a}.', '{a} - {b} = ?',
    'How much is {a} minus {b}?'],
  'x': ['What is {a} x {b}?', 'What is {a} times {b}?', 'Multiply {a} by {b}.', '{a} x {b} = ?',
    'How much is {a} times {b}?'],
};
export const kSumMax = 20;      // of both numbers added, and of the one taken from
export const kFactorMax = 12;

export function sumQuestions(a, sign, b) {
  return kAsk[sign].map((q) => q.replace('{a}', a).replace('{b}', b));
}

const equation = (a, sign, b, result) => `${a} ${sign} ${b} = ${result}`;

// Over the ten where the sum crosses one, else by the ones.
function addSteps(a, b) {
  const gap = (10 - (a % 10)) % 10;
  if (gap === 0 || b <= gap) return `${equation(a, '+', b, a + b)}.`;
  return `${equation(a, '+', gap, a + gap)} and ${equation(a + gap, '+', b - gap, a + b)}.`;
}

function takeSteps(a, b) {
  const ones = a % 10;
  if (ones === 0 || b <= ones) return `${equation(a, '-', b, a - b)}.`;
  return `${equation(a, '-', ones, a - ones)} and ${equation(a - ones, '-', b - ones, a - b)}.`;
}

function timesSteps(a, b) {
  if (b < 2) return `${equation(a, 'x', b, a * b)}.`;
  return `${equation(a, 'x', b - 1, a * (b - 1))} and `
    + `${equation(a * (b - 1), '+', a, a * b)}.`;
}

function sumFact(a, sign, b, result, steps, check) {
  const answer = `${equation(a, sign, b, result)}.`;
  const follow = [`And ${a} ${sign} ${b}?`, `What about ${a} ${sign} ${b}?`];
  return {
    id: `sum/${a}${sign}${b}`, kind: 'sum', subject: sign, answer,
    questions: sumQuestions(a, sign, b), follow: { same: [], other: follow },
    reasoning: ['A sum is asked for.', steps, `Check: ${check}.`], sentence: answer,
  };
}

export function sumFacts() {
  const out = [];
  for (let a = 0; a <= kSumMax; ++a) {
    for (let b = 0; b <= kSumMax; ++b) {
      out.push(sumFact(a, '+', b, a + b, addSteps(a, b), equation(a + b, '-', b, a)));
      if (b <= a) out.push(sumFact(a, '-', b, a - b, takeSteps(a, b), equation(a - b, '+', b, a)));
      if (a <= kFactorMax && b <= kFactorMax)
        out.push(sumFact(a, 'x', b, a * b, timesSteps(a, b), equation(b, 'x', a, a * b)));
    }
  }
  return out;
}

// A sum beyond those, which nano-chat declines: [question, follow].
export function largeSum(rng) {
  const sign = rng.pick(['+', '-', 'x']);
  const a = 100 + rng.below(900) * (rng.chance(0.5) ? 1 : 11);
  const b = 21 + rng.below(900);
  return rng.pick(sumQuestions(Math.max(a, b), sign, Math.min(a, b)));
}
