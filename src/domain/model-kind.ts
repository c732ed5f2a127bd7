export type ModelKind = 'chat' | 'embedding' | 'reranker';

/** Models of other crafts that providers list beside ours: images, sound, moderation, completions without chat. */
const otherCrafts =
  /whisper|\btts\b|dall-e|image|audio|realtime|transcribe|moderation|\bsora\b|speech|diffusion|\bflux\b|\bclip\b|davinci|babbage|turbo-instruct/i;

/** What a model is for by its name, as OpenAI's list says no more; null for what we have no use for. */
export function kindByName(id: string): ModelKind | null {
  if (/rerank|cross-encoder|late-interaction/i.test(id)) return 'reranker';
  if (/embed|minilm|mpnet|\b(bge|e5|gte|voyage)\b/i.test(id)) return 'embedding';
  return otherCrafts.test(id) ? null : 'chat';
}
