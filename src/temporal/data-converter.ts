import { fileURLToPath } from 'node:url';
import type { DataConverter } from '@temporalio/common';
import type { PayloadKeys } from '#src/config.ts';
import { createPayloadCodec } from './payload-codec.ts';

/** What puts the messages of failures among the payloads, in workflows, too. */
export const failureConverterPath = fileURLToPath(new URL('./failure-converter.ts', import.meta.url));

/**
 * How clients and workers write what the server stores, and read it. Without keys it is written as it is, and what is
 * encrypted is refused by name.
 */
export function dataConverter(keys: PayloadKeys | null = null): DataConverter {
  return {
    payloadCodecs: [createPayloadCodec(keys ?? { sealing: null, all: [] })],
    // Puts the messages of failures among the payloads; the workflows' bundle holds it, too.
    ...(keys?.sealing && { failureConverterPath }),
  };
}
