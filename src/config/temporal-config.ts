import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { EncryptionKey } from '../keys.ts';
import { ConfigError, readSettings } from './read-settings.ts';
import { type Settings, settings } from './settings.ts';

/** TLS options of the Temporal connection; an empty object means TLS with the system's certificate authorities. */
type TemporalTls = {
  serverRootCACertificate?: Buffer;
  clientCertPair?: { crt: Buffer; key: Buffer };
  serverNameOverride?: string;
};

/**
 * Keys for workflow payloads. All keys in `all` decrypt; `sealing` encrypts new payloads, which stay unencrypted if
 * `sealing` is null.
 */
export type PayloadEncryptionKeys = { sealing: EncryptionKey | null; all: readonly EncryptionKey[] };

export type TemporalConfig = {
  address: string;
  namespace: string;
  uiUrl: string | null;
  /** Timeout of a Temporal RPC. Short, because HTTP requests wait for it; the sweeper repeats RPCs that timed out. */
  callTimeoutMs: number;
  tls: TemporalTls | null;
  apiKey: string | null;
  /** If null, payloads of workflows are stored unencrypted. */
  payloadKeys: PayloadEncryptionKeys | null;
  /**
   * Worker deployment version; null disables worker versioning. A null `buildId` is computed from the workflow code.
   */
  deployment: { name: string; buildId: string | null } | null;
};

type TemporalSettings = Pick<Settings, Extract<keyof Settings, `TEMPORAL_${string}`>>;

/** Reads the Temporal settings. Throws {@link ConfigError} for contradictory settings and unreadable files. */
export function readTemporalConfig(s: TemporalSettings): TemporalConfig {
  if (s.TEMPORAL_BUILD_ID !== undefined && s.TEMPORAL_DEPLOYMENT_NAME === undefined) {
    throw new ConfigError('wrong setting TEMPORAL_DEPLOYMENT_NAME: required together with TEMPORAL_BUILD_ID');
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
    throw new ConfigError(`wrong setting TEMPORAL_TLS: ${needTls.join(', ')} require TLS`);
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
      `wrong setting TEMPORAL_TLS_CLIENT_${missing}_PATH: required together with TEMPORAL_TLS_CLIENT_${given}_PATH`,
    );
  }
  const crt = readPem('TEMPORAL_TLS_CLIENT_CERT_PATH', certPath, checkCertificate);
  const key = readPem('TEMPORAL_TLS_CLIENT_KEY_PATH', keyPath, (pem) => {
    if (!new X509Certificate(crt).checkPrivateKey(privateKey(pem))) {
      throw new Error('the private key does not match the certificate of TEMPORAL_TLS_CLIENT_CERT_PATH');
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

/** Replaces OpenSSL's message, which does not say what the file should contain. */
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

/** Settings of the codec server, which decrypts payloads for operators. It reads no settings of the other processes. */
type CodecServerConfig = Readonly<{
  host: string;
  port: number;
  payloadKeys: PayloadEncryptionKeys;
  uiOrigins: readonly string[];
  /** If null, the codec server requires no token, but only accepts requests from this machine. */
  token: string | null;
  logLevel: string;
}>;

const codecServerSettings = settings.pick({
  CODEC_HOST: true,
  CODEC_PORT: true,
  CODEC_UI_ORIGINS: true,
  CODEC_TOKEN: true,
  TEMPORAL_CODEC_KEY: true,
  LOG_LEVEL: true,
});

const loopback = /^(localhost|127(\.\d{1,3}){3}|::1)$/;

export function loadCodecServerConfig(env: Record<string, string | undefined>): CodecServerConfig {
  const s = readSettings(codecServerSettings, env);
  if (s.TEMPORAL_CODEC_KEY === undefined) throw new ConfigError('wrong setting TEMPORAL_CODEC_KEY: is required');
  if (s.CODEC_TOKEN === undefined && !loopback.test(s.CODEC_HOST)) {
    throw new ConfigError('wrong setting CODEC_TOKEN: required unless CODEC_HOST is a loopback address');
  }
  return {
    host: s.CODEC_HOST,
    port: s.CODEC_PORT,
    payloadKeys: s.TEMPORAL_CODEC_KEY,
    uiOrigins: s.CODEC_UI_ORIGINS,
    token: s.CODEC_TOKEN ?? null,
    logLevel: s.LOG_LEVEL,
  };
}
