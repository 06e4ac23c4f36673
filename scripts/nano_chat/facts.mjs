// What nano-chat is taught, as facts: one canonical answer each, and several ways to ask for it.
//
//   {id, kind, subject, answer, questions, follow, reasoning: [three sentences], sentence}
//
// `follow` are questions that need the turn before: about the same country ("What is its capital?")
// or the same kind of fact about another ("And Spain?"). The answers name what they are about, so
// that the words just written point at the words to come, which is how n-gram tables find them.

const fill = (template, values) => template.replace(/\{(\w+)\}/g, (_, name) => values[name]);
export const capitalised = (text) => text[0].toUpperCase() + text.slice(1);
const list = (items) => (items.length < 2 ? items.join('')
  : `${items.slice(0, -1).join(', ')} and ${items.at(-1)}`);

const kWordQuestions = [
  'What does {w} mean?', 'What does the word {w} mean?', 'Define {w}.',
  'What is the meaning of {w}?', 'Define the word {w}.', 'Please explain the word {w}.',
  'What is meant by {w}?', 'Can you define {w}?',
];
const kWordFollow = ['And {w}?', 'And the word {w}?', 'What about {w}?'];

export function wordQuestions(word) {
  return kWordQuestions.map((q) => fill(q, { w: word }));
}

export function wordFollow(word) {
  return kWordFollow.map((q) => fill(q, { w: word }));
}

export function wordFact({ word, part, gloss }) {
  const answer = `The word ${word} means ${gloss}.`;
  return {
    id: `word/${word}`, kind: 'word', subject: word, answer,
    questions: wordQuestions(word), follow: { other: wordFollow(word), same: [] },
    reasoning: ['A word is asked for.', `I know it, it is ${/^a/.test(part) ? 'an' : 'a'} ${part}.`,
      'I give its first meaning.'],
    sentence: answer,
  };
}

// Kinds of facts about a country. {c} is its name, {v} the value; questions come with the answer.
const kCountryKinds = {
  capital: {
    topic: 'A capital is asked for.', answer: 'The capital of {c} is {v}.',
    questions: ['What is the capital of {c}?', 'Which city is the capital of {c}?',
      'Name the capital of {c}.', 'What is {p} capital?', 'Tell me the capital of {c}.',
      'Do you know the capital of {c}?'],
    same: ['What is its capital?', 'And its capital?'],
  },
  capital_of: {
    topic: 'A city is asked about.', answer: '{v} is the capital of {c}.',
    questions: ['{v} is the capital of which country?', 'Which country has the capital {v}?',
      'What country is {v} the capital of?', 'Which country is {v} the capital of?'],
    same: [],
  },
  population: {
    topic: 'A number of people is asked for.', answer: 'About {v} people live in {c}.',
    questions: ['How many people live in {c}?', 'What is the population of {c}?',
      'How large is the population of {c}?', 'What is {p} population?',
      'Tell me the population of {c}.', 'How many people are there in {c}?'],
    same: ['How many people live there?', 'And its population?', 'What is its population?'],
  },
  area: {
    topic: 'An area is asked for.', answer: 'The area of {c} is about {v} square kilometres.',
    questions: ['What is the area of {c}?', 'How large is {c}?', 'How big is {c}?',
      'Tell me the area of {c}.', 'What is {p} area?', 'How many square kilometres does {c} have?'],
    same: ['How large is it?', 'How big is it?', 'And its area?'],
  },
  languages: {
    topic: 'A language is asked for.', answer: 'People in {c} speak {v}.',
    questions: ['What language do people speak in {c}?', 'Which languages are spoken in {c}?',
      'What is the language of {c}?', 'What do people in {c} speak?',
      'Name the main languages of {c}.', 'Which language is official in {c}?'],
    same: ['What language do people speak there?', 'And its language?'],
  },
  currency: {
    topic: 'A currency is asked for.', answer: 'People in {c} pay in {v}.',
    questions: ['What is the currency of {c}?', 'What money is used in {c}?',
      'How do people pay in {c}?', 'Which currency does {c} use?', 'What is {p} currency?',
      'Name the currency of {c}.'],
    same: ['What is its currency?', 'And its currency?', 'What money do they use?'],
  },
  location: {
    topic: 'A place is asked for.', answer: '{C} lies in {v}.',
    questions: ['Where is {c}?', 'Where does {c} lie?', 'In which part of the world is {c}?',
      'Where can I find {c}?', 'Tell me where {c} is.', 'Which region is {c} in?'],
    same: ['Where is it?', 'Where does it lie?'],
  },
  borders: {
    topic: 'Neighbours are asked for.', answer: '{C} borders {v}.',
    questions: ['Which countries border {c}?', 'What are the neighbours of {c}?',
      'Which countries does {c} border?', 'Name the neighbours of {c}.', 'What borders {c}?',
      'Who are {p} neighbours?'],
    same: ['Which countries does it border?', 'And its neighbours?'],
  },
  about: {
    topic: 'A country is asked about.', answer: '{v}',
    questions: ['Tell me about {c}.', 'What do you know about {c}?', 'What is {c}?',
      'Describe {c}.', 'Can you tell me something about {c}?'],
    same: ['Tell me more about it.'],
  },
};
export const kNeighboursMax = 6;  // Longer lists are left out: nobody remembers China's fourteen.

const possessive = (name) => (name.endsWith('s') ? `${name}'` : `${name}'s`);

// kind -> value, of the facts this country has.
function valuesOf(country) {
  const { name, capital: city, population, location, languages, borders } = country;
  const out = { population, area: country.area, currency: country.currency, location };
  if (city) Object.assign(out, { capital: city, capital_of: city });
  if (languages) out.languages = list(languages);
  if (borders.length <= kNeighboursMax) out.borders = list(borders) || 'no other country';
  if (location && city)
    out.about = `${capitalised(name)} lies in ${location}. Its capital is ${city}. `
      + `About ${population} people live there.`;
  return out;
}

export function countryQuestions(kind, name) {
  return kCountryKinds[kind].questions.map((q) => fill(q, { c: name, p: possessive(name) }));
}

export function countryFollow(kind, name) {
  if (kind === 'capital_of') return { same: [], other: [] };
  const other = ['And {c}?', 'What about {c}?', 'And for {c}?'].map((q) => fill(q, { c: name }));
  return { same: kCountryKinds[kind].same, other };
}

export const countryTopic = (kind) => kCountryKinds[kind].topic;
export const kAskedKinds = Object.keys(kCountryKinds).filter((kind) => kind !== 'capital_of');

export function countryFacts(country) {
  const { name } = country;
  return Object.entries(valuesOf(country)).filter(([, value]) => value).map(([kind, value]) => {
    const words = { c: name, C: capitalised(name), p: possessive(name), v: value };
    const answer = fill(kCountryKinds[kind].answer, words);
    const known = kind === 'capital_of' ? `The city is ${value}.` : `The country is ${name}.`;
    return {
      id: `${kind}/${name}`, kind, subject: name, answer,
      questions: kCountryKinds[kind].questions.map((q) => capitalised(fill(q, words))),
      follow: countryFollow(kind, name),
      reasoning: [kCountryKinds[kind].topic, known, 'I know the answer and say it in full.'],
      sentence: answer,
    };
  });
}
