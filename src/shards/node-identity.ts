import {
  constants,
  createHash,
  createPublicKey,
  generateKeyPairSync,
  hkdfSync,
  type KeyObject,
  randomBytes,
  sign,
  verify,
} from 'node:crypto';
import type { TLSSocket } from 'node:tls';
import { z } from 'zod';
import { KEY_BYTES } from '../core/ed25519.ts';
import type { FleetKeys } from '../fleet/secrets.ts';
import { ed25519Key } from './shard-keys.ts';

/*
 * Nodes know each other by certificates of the fleet's authority, whose key is derived from the key file. A certificate
 * belongs to a session of a worker or to a grant, and counts as long as that row is valid in the registry: when the session
 * of a node has ended, or the grant is revoked, nobody accepts it. So certificates are never stored, renewed or listed as
 * revoked, and their dates do not matter.
 */

/** The owner of a certificate. A session may pass on requests of any grant, a grant only its own. */
export interface Subject {
  readonly kind: 'session' | 'grant';
  /** UUID of the row. */
  readonly id: string;
}

/** What a node or a command needs to take part in TLS. */
export interface NodeCertificate {
  readonly subject: Subject;
  readonly privateKey: KeyObject;
  /** PEM. */
  readonly cert: string;
  readonly key: string;
}

/** Settings of TLS on both sides. Without tickets, nothing is resumed, so each connection proves its keys. */
export const NODE_TLS = {
  minVersion: 'TLSv1.3',
  secureOptions: constants.SSL_OP_NO_TICKET,
  ALPNProtocols: ['http/1.1'],
} as const;

/** Returns the certificates of the fleet's authority, one for each key of the file. @param fleet UUID */
export function authorities(keys: FleetKeys, fleet: string): string[] {
  return keys.names.map((name) => {
    const { key, label } = authority(keys, fleet, name);
    return certificate({
      issuer: label,
      subject: label,
      key: createPublicKey(key),
      by: key,
      isCa: true,
    });
  });
}

/** Makes a key pair and has the fleet's authority certify it. */
export function certify(keys: FleetKeys, fleet: string, subject: Subject): NodeCertificate {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519');
  // While a key is added, every node still has the oldest.
  const { key: by, label: issuer } = authority(keys, fleet, keys.names.at(-1) ?? '');
  const name = `${subject.kind}/${subject.id}`;
  return {
    ...{ subject, privateKey },
    cert: certificate({ issuer, subject: name, key: publicKey, by, isCa: false }),
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
  };
}

const SUBJECT = /^CN=(session|grant)\/([0-9a-f-]{36})$/;

/** Returns who is at the other end of a connection that TLS has verified, and the public key of its certificate. */
export function peerOf(socket: TLSSocket): { subject: Subject; publicKey: KeyObject } | undefined {
  const found = socket.getPeerX509Certificate();
  const [, kind, id] = SUBJECT.exec(found?.subject ?? '') ?? [];
  if (found === undefined || id === undefined) return undefined;
  return {
    subject: { kind: kind === 'session' ? 'session' : 'grant', id },
    publicKey: found.publicKey,
  };
}

function authority(keys: FleetKeys, fleet: string, name: string) {
  const secret = keys.key(name) ?? Buffer.alloc(0);
  const info = 'mailkeep fleet authority 1';
  const key = ed25519Key(Buffer.from(hkdfSync('sha256', secret, fleet, info, KEY_BYTES)));
  const hash = createHash('sha256').update(createPublicKey(key).export(SPKI));
  // Authorities of two keys need two names, or OpenSSL would try only one of them.
  return { key, label: `mailkeep fleet ${hash.digest('hex').slice(0, 16)}` };
}

const SPKI = { type: 'spki', format: 'der' } as const;

/** Encodes a value in DER (X.690). */
function der(tag: number, ...parts: readonly (Buffer | string)[]): Buffer {
  const body = Buffer.concat(parts.map((part) => Buffer.from(part)));
  const { length } = body;
  const size =
    length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...size]), body]);
}

const [SEQUENCE, SET, OID, BOOLEAN] = [0x30, 0x31, 0x06, 0x01];
const ED25519 = der(SEQUENCE, der(OID, Buffer.from('2b6570', 'hex')));
const COMMON_NAME = der(OID, Buffer.from('550403', 'hex'));
const BASIC_CONSTRAINTS = der(OID, Buffer.from('551d13', 'hex'));
const TRUE = der(BOOLEAN, Buffer.from([0xff]));
const ALWAYS = der(SEQUENCE, der(0x17, '200101000000Z'), der(0x18, '99991231235959Z'));

interface Certified {
  readonly issuer: string;
  readonly subject: string;
  readonly key: KeyObject;
  readonly by: KeyObject;
  readonly isCa: boolean;
}

/** Returns an X.509 certificate in PEM (RFC 5280, RFC 8410). Node.js reads certificates, but does not make them. */
function certificate({ issuer, subject, key, by, isCa }: Certified): string {
  const name = (text: string) =>
    der(SEQUENCE, der(SET, der(SEQUENCE, COMMON_NAME, der(0x0c, text))));
  // Positive, as it has to be; the authority's own is always the same.
  const serial = isCa ? Buffer.from([1]) : Buffer.concat([Buffer.from([1]), randomBytes(15)]);
  const constraints = der(0x04, isCa ? der(SEQUENCE, TRUE) : der(SEQUENCE));
  const toSign = der(
    SEQUENCE,
    der(0xa0, der(0x02, Buffer.from([2]))),
    der(0x02, serial),
    ED25519,
    name(issuer),
    ALWAYS,
    name(subject),
    key.export(SPKI),
    der(0xa3, der(SEQUENCE, der(SEQUENCE, BASIC_CONSTRAINTS, TRUE, constraints))),
  );
  const signature = sign(null, toSign, by);
  const whole = der(SEQUENCE, toSign, ED25519, der(0x03, Buffer.from([0]), signature));
  const lines = whole.toString('base64').replaceAll(/.{64}/g, '$&\n').trimEnd();
  return `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`;
}

/** Header that says for whom a request is. Only the listener for nodes accepts it. */
export const IDENTITY_HEADER = 'mailkeep-request-identity';

/** A node of a newer version may send more. */
const identityShape = z.object({
  /** Counts the requests of the connection, so that none is accepted twice. */
  sequence: z.int().positive(),
  /** UUID of the row of the session or token. What it may read is looked up there, never sent. */
  grant: z.uuid(),
  /** Id of the account; null for all accounts of the grant in the shard. */
  account: z.int().nullable(),
  shard: z.int(),
  epoch: z.int(),
  method: z.string(),
  /** Path and query. */
  target: z.string(),
  /** SHA-256 of the body in base64url. */
  body: z.string(),
  /** How the browser or program reached the node that let it in. */
  reached: z.object({ host: z.string(), origin: z.string(), secure: z.boolean() }),
});

/**
 * For whom a node passes on a request. It is signed for one connection (TLS exporter, RFC 8446 section 7.5) and its place in
 * it. A copy of it is therefore worth nothing on another connection, later in the same one, or with another request, and
 * nobody has to remember nonces or compare clocks.
 */
export type RequestIdentity = z.output<typeof identityShape>;

export function bodyHash(body: Buffer): string {
  return createHash('sha256').update(body).digest('base64url');
}

function signedBytes(socket: TLSSocket, text: string): Buffer {
  const channel = socket.exportKeyingMaterial(32, 'EXPORTER-mailkeep-identity', Buffer.alloc(0));
  return Buffer.concat([Buffer.from('mailkeep request identity 1\n'), channel, Buffer.from(text)]);
}

/** Returns the value of the header. */
export function signIdentity(identity: RequestIdentity, key: KeyObject, socket: TLSSocket): string {
  const text = Buffer.from(JSON.stringify(identity)).toString('base64url');
  return `${text}.${sign(null, signedBytes(socket, text), key).toString('base64url')}`;
}

/** Returns the identity in a header; undefined unless its sender signed it for this connection. */
export function openIdentity(
  header: string,
  sender: KeyObject,
  socket: TLSSocket,
): RequestIdentity | undefined {
  const [text = '', signature = '', ...more] = header.split('.');
  if (more.length > 0) return undefined;
  const isSigned = verify(
    null,
    signedBytes(socket, text),
    sender,
    Buffer.from(signature, 'base64url'),
  );
  if (!isSigned) return undefined;
  const value: unknown = JSON.parse(Buffer.from(text, 'base64url').toString('utf8'));
  return identityShape.safeParse(value).data;
}
