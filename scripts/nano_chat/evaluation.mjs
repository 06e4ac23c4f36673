// The questions of eval.jsonl.
//
//   {kind, messages, answers, match: "exact" | "abstain", effort?}
//
// "trained": a fact in a wording it was trained in. "new wording": a fact in the wording held out
// of training. "new sum": a pair of numbers never trained. "follow-up": explained by the turn
// before. "unknown", "untaught", "unknown country": names held out of training. "effort N":
// trained questions at that effort, for the length of the reasoning.
import { heldWording, isHeldSum } from './conversations.mjs';

const kAbstainKinds = { 'unknown word': 'invented', 'untaught word': 'untaught',
  'unknown country': 'country' };
const kEfforts = ['none', 10, 50, 75, 100];

const ask = (question) => [{ role: 'user', content: question }];

function exact(kind, fact, question) {
  return { kind, match: 'exact', messages: ask(question), answers: [fact.answer] };
}

function trainedWording(fact, rng) {
  return rng.pick(fact.questions.filter((_, i) => i !== heldWording(fact)));
}

// Two turns: a fact, and a question about another fact that only the first turn explains.
function followUps(facts, count, rng) {
  const out = [];
  const countries = facts.filter((fact) => fact.follow.same.length > 0);
  while (out.length < count && countries.length > 1) {
    const first = rng.pick(countries);
    const pool = countries.filter((f) => f.subject === first.subject && f.id !== first.id);
    if (pool.length === 0) continue;
    const next = rng.pick(pool);
    out.push({
      kind: 'follow-up', match: 'exact', answers: [next.answer],
      messages: [...ask(trainedWording(first, rng)),
        { role: 'assistant', content: first.answer },
        ...ask(rng.pick(next.follow.same))],
    });
  }
  return out;
}

export function makeEvaluation({ facts, unknowns, sizes, rng }) {
  const take = (list, count) => rng.shuffle(list).slice(0, count);
  const trained = facts.filter((fact) => !isHeldSum(fact));
  const group = (fact) => (['word', 'sum', 'talk'].includes(fact.kind) ? fact.kind : 'country');
  const out = [];
  for (const kind of ['word', 'country', 'sum']) {
    for (const fact of take(trained.filter((f) => group(f) === kind), sizes.trained))
      out.push(exact(`trained ${kind}`, fact, trainedWording(fact, rng)));
  }
  // Of talk there is little: all of it.
  for (const fact of trained.filter((f) => f.kind === 'talk')) {
    fact.questions.forEach((question, i) => {
      const kind = i === heldWording(fact) ? 'new wording talk' : 'trained talk';
      out.push(exact(kind, fact, question));
    });
  }
  for (const kind of ['word', 'country', 'sum']) {
    const worded = trained.filter((f) => group(f) === kind && heldWording(f) >= 0);
    for (const fact of take(worded, sizes.wording))
      out.push(exact(`new wording ${kind}`, fact, fact.questions[heldWording(fact)]));
  }
  for (const fact of take(facts.filter(isHeldSum), sizes.wording))
    out.push(exact('new sum', fact, fact.questions[0]));
  out.push(...followUps(trained, sizes.wording, rng));
  for (const [name, kind] of Object.entries(kAbstainKinds)) {
    for (let i = 0; i < sizes.unknown; ++i) {
      const item = unknowns.item(rng, true, kind);
      const messages = ask(item.question);
      out.push({ kind: name, match: 'abstain', messages, answers: [item.answer] });
    }
  }
  const asked = take(trained.filter((fact) => fact.kind !== 'talk'), sizes.effort)
    .map((fact) => [fact, trainedWording(fact, rng)]);
  for (const effort of kEfforts) {
    for (const [fact, question] of asked)
      out.push({ ...exact(`effort ${effort}`, fact, question), effort });
  }
  return out;
}
