import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { EncryptionKey } from '../keys.ts';
import { ConfigError } from './config-error.ts';
import type { Settings } from './settings.ts';

/** How the server is told from others, and how we show it who we are. Nothing of it is the usual TLS. */
export type TemporalTls = {
  serverRootCACertificate?: Buffer;
  clientCertPair?: { crt: Buffer; key: Buffer };
  serverNameOverride?: string;
};

/** Keys of payloads: all open, and `sealing` seals; null is for payloads that stay as they are. */
export type PayloadKeys = { sealing: EncryptionKey | null; all: readonly EncryptionKey[] };

export type TemporalConfig = {
  /** host:port */
  address: string;
  namespace: string;
  uiUrl: string | null;
  /** The deadline of an RPC to Temporal; requests wait for it, and the sweeper repeats calls that time out. */
  callTimeoutMs: number;
  /** Null: the line is not encrypted. */
  tls: TemporalTls | null;
  apiKey: string | null;
  /** Null: the server stores what workflows hand over as it is. */
  payloadKeys: PayloadKeys | null;
  /** Which version of which deployment workers are; a null `buildId` is made of the workflows. Null: no versions. */
  deployment: { name: string; buildId: string | null } | null;
};

type TemporalSettings = Pick<Settings, Extract<keyof Settings, `TEMPORAL_${string}`>>;

/** @throws ConfigError for settings that do not fit together, and files that hold something else */
export function temporalConfig(s: TemporalSettings): TemporalConfig {
  if (s.TEMPORAL_BUILD_ID !== undefined && s.TEMPORAL_DEPLOYMENT_NAME === undefined) {
    throw new ConfigError('wrong setting TEMPORAL_DEPLOYMENT_NAME: required beside TEMPORAL_BUILD_ID');
  }
  return {
    address: s.TEMPORAL_ADDRESS,
    namespace: s.TEMPORAL_NAMESPACE,
    uiUrl: s.TEMPORAL_UI_URL ?? null,
    callTimeoutMs: s.TEMPORAL_CALL_TIMEOUT_MS,
    tls: tls(s),
    apiKey: s.TEMPORAL_API_KEY ?? null,
    payloadKeys: s.TEMPORAL_CODEC_KEY ?? null,
    deployment:
      s.TEMPORAL_DEPLOYMENT_NAME === undefined
        ? null
        : { name: s.TEMPORAL_DEPLOYMENT_NAME, buildId: s.TEMPORAL_BUILD_ID ?? null },
  };
}

function tls(s: TemporalSettings): TemporalTls | null {
  const {
    TEMPORAL_TLS: isOn,
    TEMPORAL_TLS_SERVER_CA_CERT_PATH: caPath,
    TEMPORAL_TLS_CLIENT_CERT_PATH: certPath,
    TEMPORAL_TLS_CLIENT_KEY_PATH: keyPath,
    TEMPORAL_TLS_SERVER_NAME: serverName,
    TEMPORAL_API_KEY: apiKey,
  } = s;
  const needTls = Object.entries({
    TEMPORAL_TLS_SERVER_CA_CERT_PATH: caPath,
    TEMPORAL_TLS_CLIENT_CERT_PATH: certPath,
    TEMPORAL_TLS_CLIENT_KEY_PATH: keyPath,
    TEMPORAL_TLS_SERVER_NAME: serverName,
    TEMPORAL_API_KEY: apiKey,
  }).flatMap(([name, value]) => (value === undefined ? [] : [name]));
  if (isOn === false && needTls.length > 0) {
    throw new ConfigError(
      `wrong setting TEMPORAL_TLS: ${needTls.join(', ')} cannot go with a line that is not encrypted`,
    );
  }
  if (!isOn && needTls.length === 0) return null;
  const clientCertPair = clientPair(certPath, keyPath);
  return {
    ...(caPath === undefined
      ? {}
      : { serverRootCACertificate: readPem('TEMPORAL_TLS_SERVER_CA_CERT_PATH', caPath, checkCertificate) }),
    ...(clientCertPair && { clientCertPair }),
    ...(serverName === undefined ? {} : { serverNameOverride: serverName }),
  };
}

function clientPair(certPath: string | undefined, keyPath: string | undefined): TemporalTls['clientCertPair'] {
  if (certPath === undefined && keyPath === undefined) return undefined;
  if (certPath === undefined || keyPath === undefined) {
    const [missing, given] = certPath === undefined ? ['CERT', 'KEY'] : ['KEY', 'CERT'];
    throw new ConfigError(
      `wrong setting TEMPORAL_TLS_CLIENT_${missing}_PATH: required beside TEMPORAL_TLS_CLIENT_${given}_PATH`,
    );
  }
  const crt = readPem('TEMPORAL_TLS_CLIENT_CERT_PATH', certPath, checkCertificate);
  const key = readPem('TEMPORAL_TLS_CLIENT_KEY_PATH', keyPath, (pem) => {
    if (!new X509Certificate(crt).checkPrivateKey(privateKey(pem))) {
      throw new Error('is not the key of the certificate of TEMPORAL_TLS_CLIENT_CERT_PATH');
    }
  });
  return { crt, key };
}

function readPem(name: string, path: string, check: (pem: Buffer) => void): Buffer {
  try {
    const pem = readFileSync(path);
    check(pem);
    return pem;
  } catch (error) {
    throw new ConfigError(`wrong setting ${name}: ${error instanceof Error ? error.message : 'is not readable'}`);
  }
}

/** The library's own words for what is wrong with a file help nobody. */
function checkCertificate(pem: Buffer): void {
  try {
    new X509Certificate(pem);
  } catch {
    throw new Error('must be the path of a certificate in PEM');
  }
}

function privateKey(pem: Buffer) {
  try {
    return createPrivateKey(pem);
  } catch {
    throw new Error('must be the path of a private key in PEM without a password');
  }
}
