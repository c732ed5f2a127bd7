import { isOverlapBelowTarget, type RagConfig } from '#src/domain/documents/rag-config.ts';
import { fieldError } from '#src/errors.ts';

/** Of a request's form, whose field the error names. */
export function requireOverlapBelowTarget(chunking: RagConfig['chunking']): void {
  if (!isOverlapBelowTarget(chunking)) throw fieldError('overlap_tokens', 'must be less than target_tokens');
}
