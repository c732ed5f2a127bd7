import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { type DataConverter, type Payload, type PayloadCodec, ValueError } from '@temporalio/common';
import proto from '@temporalio/proto';
import type { PayloadEncryptionKeys } from '#src/config.ts';

/** Temporal loads the failure converter by its path, because it also loads it into the workflow sandbox. */
export const temporalFailureConverterPath = fileURLToPath(new URL('./failure-converter.ts', import.meta.url));

/**
 * Creates Temporal's data converter. Without `keys`, nothing is encrypted, and decoding an encrypted payload throws an
 * error that names the missing key.
 */
export function createTemporalDataConverter(keys: PayloadEncryptionKeys | null = null): DataConverter {
  return {
    payloadCodecs: [createPayloadCodec(keys ?? { sealing: null, all: [] })],
    ...(keys?.sealing && { failureConverterPath: temporalFailureConverterPath }),
  };
}

const algorithm = 'aes-256-gcm';
const nonceBytes = 12;
const tagBytes = 16;

/** Encoding name from Temporal's encryption samples, which Temporal's tools recognize. */
const encoding = Buffer.from('binary/encrypted');
const { Payload: PayloadMessage } = proto.temporal.api.common.v1;

/**
 * Encrypts payloads with AES-256-GCM and writes the key id into their metadata. The encryption is not bound to the
 * workflow run, because the codec server of the Temporal UI does not get the run id.
 */
export function createPayloadCodec({ sealing, all }: PayloadEncryptionKeys): PayloadCodec {
  const keys = new Map(all.map(({ id, key }) => [id, key]));

  function seal(payload: Payload): Payload {
    if (sealing === null) return payload;
    const nonce = randomBytes(nonceBytes);
    const cipher = createCipheriv(algorithm, sealing.key, nonce, { authTagLength: tagBytes });
    const plain = PayloadMessage.encode(payload).finish();
    const data = Buffer.concat([nonce, cipher.update(plain), cipher.final(), cipher.getAuthTag()]);
    return { metadata: { encoding, 'encryption-key-id': Buffer.from(sealing.id) }, data };
  }

  function open(payload: Payload): Payload {
    if (!encoding.equals(payload.metadata?.encoding ?? Buffer.alloc(0))) return payload;
    const id = Buffer.from(payload.metadata?.['encryption-key-id'] ?? []).toString();
    const key = keys.get(id);
    if (key === undefined) {
      throw new ValueError(`TEMPORAL_CODEC_KEY lacks the key ${JSON.stringify(id)}, which encrypted the payload.`);
    }
    const bytes = Buffer.from(payload.data ?? []);
    if (bytes.length < nonceBytes + tagBytes) throw unreadable(id);
    const decipher = createDecipheriv(algorithm, key, bytes.subarray(0, nonceBytes), { authTagLength: tagBytes });
    decipher.setAuthTag(bytes.subarray(-tagBytes));
    try {
      const plain = Buffer.concat([decipher.update(bytes.subarray(nonceBytes, -tagBytes)), decipher.final()]);
      return PayloadMessage.decode(plain);
    } catch {
      throw unreadable(id);
    }
  }

  return {
    encode: async (payloads) => payloads.map(seal),
    decode: async (payloads) => payloads.map(open),
  };
}

function unreadable(keyId: string): ValueError {
  return new ValueError(
    `A payload could not be decrypted: it was changed, or encrypted with another key that has the same id ${JSON.stringify(keyId)}.`,
  );
}
