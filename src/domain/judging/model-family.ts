/** Words in names of models that say whose they are; a distilled model is of both families that its name holds. */
const families: readonly [family: string, names: RegExp][] = [
  ['openai', /\bgpt|\bchatgpt|\bo[134]\b|davinci|codex/],
  ['anthropic', /claude/],
  ['google', /gemini|gemma|palm\b/],
  ['meta', /llama/],
  ['mistral', /mistral|mixtral|ministral|magistral|codestral|devstral|pixtral/],
  ['alibaba', /qwen|qwq/],
  ['deepseek', /deepseek/],
  ['microsoft', /\bphi\b|\bphi-?\d|wizardlm/],
  ['cohere', /command|aya\b|cohere/],
  ['xai', /grok/],
  ['amazon', /\bnova\b|titan/],
  ['zhipu', /\bglm|chatglm/],
  ['moonshot', /kimi|moonshot/],
  ['ibm', /granite/],
  ['nvidia', /nemotron/],
  ['ai21', /jamba|jurassic/],
  ['01', /\byi\b/],
  ['tencent', /hunyuan/],
  ['minimax', /minimax|abab/],
  ['baidu', /ernie/],
  ['bytedance', /doubao|\bseed\b/],
  ['allenai', /olmo|tulu/],
];

/**
 * True when a judge would grade its own kind: judges favour what their own family writes. Models that no name tells
 * apart are of one family when they have one name, whoever serves them.
 */
export function isSameFamily(evaluator: string, generator: string): boolean {
  const own = familiesOf(evaluator);
  const others = familiesOf(generator);
  if (own.length === 0 || others.length === 0) return bareName(evaluator) === bareName(generator);
  return own.some((family) => others.includes(family));
}

function familiesOf(model: string): string[] {
  const name = bareName(model);
  return families.filter(([, names]) => names.test(name)).map(([family]) => family);
}

/** Without the one who serves it (`groq/…`), and without the variant (`…:free`). */
function bareName(model: string): string {
  return model.toLowerCase().replace(/^.*\//, '').replace(/:.*$/, '');
}
