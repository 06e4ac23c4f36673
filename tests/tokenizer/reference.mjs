// The reference tokenizer: Hugging Face `tokenizers`, as npm @anush008/tokenizers binds it.
export async function loadReference(file) {
  let library;
  try {
    library = await import('@anush008/tokenizers');
  } catch (error) {
    console.error(`${error.message}\n` +
                  'Run `make deps-test` first: it installs the npm packages of tests/tokenizer.');
    process.exit(1);
  }
  const tokenizer = library.Tokenizer.fromFile(file);
  return {
    // Without copying the ids to JavaScript.
    encodeOnly: (text) => tokenizer.encode(text, null, {addSpecialTokens: false}),
    async encode(text) {
      const encoding = await tokenizer.encode(text, null, {addSpecialTokens: false});
      return encoding.getIds();
    },
    decode: (ids) => tokenizer.decode(ids, false),
  };
}
