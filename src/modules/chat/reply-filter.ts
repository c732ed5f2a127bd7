import { createAddressRewriter } from '#src/domain/chat/link-filter.ts';
import { addressesIn } from '#src/domain/chat/urls.ts';

/** Takes the addresses out of a reply that stand in none of the texts: see `createAddressRewriter`. */
export function createReplyFilter(texts: readonly string[]) {
  const known = new Set(texts.flatMap(addressesIn));
  const rewriter = createAddressRewriter(known);

  async function* rewrite(pieces: AsyncIterable<string>): AsyncGenerator<string> {
    for await (const piece of pieces) yield rewriter.add(piece);
    yield rewriter.end();
  }

  return {
    async *rewrite(pieces: AsyncIterable<string>): AsyncGenerator<string> {
      for await (const text of rewrite(pieces)) if (text !== '') yield text;
    },
    /** What else the model was given, before it writes on. */
    know(addresses: readonly string[]): void {
      for (const address of addresses) known.add(address);
    },
    removedCount: rewriter.removedCount,
  };
}

/** What of an earlier reply was looked at: an address that stood in its code may be the model's own. */
export function textBeforeCode(reply: string): string {
  return reply.split(/`{3}|~{3}/, 1)[0] ?? '';
}
