// What the Factbook's own spelling does not give: the names a sentence wants, and corrections.
//
// Figures and names are those of the edition in the package (2015) unless a line here says
// otherwise.

// The Factbook's short name, or its long name where it has no short one, to the name in a sentence.
export const kNames = {
  'Congo (Brazzaville)': 'the Republic of the Congo',
  'DRC': 'the Democratic Republic of the Congo',
  'Central African Republic': 'the Central African Republic',
  'Comoros': 'the Comoros',
  'The Gambia': 'the Gambia',
  'Solomon Islands': 'the Solomon Islands',
  'Federated States of Micronesia': 'Micronesia',
  'Marshall Islands': 'the Marshall Islands',
  'The Bahamas': 'the Bahamas',
  'The Dominican': 'the Dominican Republic',
  'Maldives': 'the Maldives',
  'Netherlands': 'the Netherlands',
  'Philippines': 'the Philippines',
  'Seychelles': 'the Seychelles',
  'Czech Republic': 'the Czech Republic',
  'United Kingdom': 'the United Kingdom',
  'United States': 'the United States',
  'United Arab Emirates': 'the United Arab Emirates',
  'Holy See (Vatican City)': 'Vatican City',
  'Cote d\'Ivoire': 'Ivory Coast',
  'Cabo Verde': 'Cape Verde',
  'Timor-Leste': 'East Timor',
};

// How the lists of neighbours spell a country, where that is neither of the above.
export const kNeighbourNames = {
  'US': 'the United States',
  'UK': 'the United Kingdom',
  'UAE': 'the United Arab Emirates',
  'Holy See': 'Vatican City',
  'Democratic Republic of the Congo': 'the Democratic Republic of the Congo',
  'Republic of the Congo': 'the Republic of the Congo',
  'Dominican Republic': 'the Dominican Republic',
  'Gambia': 'the Gambia',
};

// Corrections by name: the euro came to the Baltic states by 2015; other lines say in short, or
// where the file's form defeats its reader, what the Factbook says at length. null leaves the fact
// out.
export const kCorrections = {
  'Austria': { languages: ['German'] },
  'the Bahamas': { location: 'the Caribbean' },
  'Bangladesh': { languages: ['Bengali'] },
  'Belgium': { languages: ['Dutch', 'French', 'German'] },
  'Bosnia and Herzegovina': { currency: 'convertible marks' },
  'Burma': { capital: 'Rangoon' },
  'Cameroon': { currency: 'CFA francs' },
  'China': { languages: ['Mandarin Chinese'], currency: 'yuan' },
  'Denmark': { languages: ['Danish'] },
  'Ecuador': { currency: 'US dollars' },
  'El Salvador': { currency: 'US dollars' },
  'Estonia': { currency: 'euros' },
  'Ethiopia': { languages: ['Amharic', 'Oromo'] },
  'France': { names: [] },  // The list is that of French Guiana.
  'Ghana': { languages: ['English'] },
  'India': { languages: ['Hindi', 'English'] },
  'Indonesia': { languages: ['Indonesian'] },
  'Ireland': { languages: ['English', 'Irish'] },
  'Israel': { languages: ['Hebrew', 'Arabic'] },
  'Kenya': { languages: ['English', 'Swahili'] },
  'Latvia': { currency: 'euros' },
  'Lithuania': { currency: 'euros' },
  'Luxembourg': { languages: ['Luxembourgish', 'French', 'German'] },
  'Malaysia': { languages: ['Malay'] },
  'Mexico': { languages: ['Spanish'] },
  'Mongolia': { languages: ['Mongolian'], currency: 'tugriks' },
  'Morocco': { languages: ['Arabic', 'Berber'] },
  'Namibia': { languages: ['English'] },
  'New Zealand': { languages: ['English', 'Maori'] },
  'Norway': { languages: ['Norwegian'] },
  'Pakistan': { languages: ['Urdu', 'English'] },
  'Portugal': { languages: ['Portuguese'] },
  'the Seychelles': { location: 'the Indian Ocean' },
  'Slovenia': { languages: ['Slovenian'] },
  'South Africa': { languages: ['Zulu', 'Xhosa', 'Afrikaans'] },
  'Spain': { languages: ['Spanish'] },
  'Swaziland': { languages: ['English', 'Swazi'] },
  'Tanzania': { languages: ['Swahili', 'English'] },
  'Turkey': { location: 'Southwestern Asia' },
  'Tuvalu': { currency: 'Australian dollars' },
  'the United States': { currency: 'US dollars' },
  'Zimbabwe': { currency: null },  // Its own dollar was given up in 2009.
};
