import {
  constants,
  createHash,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  sign,
  verify,
} from 'node:crypto';
import type { TLSSocket } from 'node:tls';
import { z } from 'zod';
import { ed25519Key, type FleetKeys } from './keys.ts';

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

/** What a node or a command needs to take part in TLS. Texts are PEM. */
export interface NodeCertificate {
  readonly cert: string;
  readonly key: string;
  /** Certificates of the fleet's authority, one for each key of the file. */
  readonly ca: string[];
  readonly privateKey: KeyObject;
}

/** Settings of TLS on both sides. Without tickets, nothing is resumed, so each connection proves its keys. */
export const NODE_TLS = {
  minVersion: 'TLSv1.3',
  secureOptions: constants.SSL_OP_NO_TICKET,
  ALPNProtocols: ['http/1.1'],
} as const;

/** Makes a key pair and has the fleet's authority certify it. @param fleet UUID */
export function certify(keys: FleetKeys, fleet: string, { kind, id }: Subject): NodeCertificate {
  const authorities = keys.deriveAll('mailkeep fleet authority 1', fleet).map((seed) => {
    const by = ed25519Key(seed);
    const key = createPublicKey(by);
    const hash = createHash('sha256').update(key.export(SPKI)).digest('hex');
    // Authorities of two keys need two names, or OpenSSL would try only one of them.
    const issuer = `mailkeep fleet ${hash.slice(0, 16)}`;
    return { by, issuer, cert: certificate({ issuer, subject: issuer, key, by, isCa: true }) };
  });
  // While a key is added, every node still has the oldest.
  const oldest = authorities.at(-1);
  if (oldest === undefined) throw new TypeError('a fleet has at least one key');
  const { privateKey, publicKey: key } = generateKeyPairSync('ed25519');
  return {
    cert: certificate({ ...oldest, subject: `${kind}/${id}`, key, isCa: false }),
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    ca: authorities.map(({ cert }) => cert),
    privateKey,
  };
}

const SUBJECT = /^CN=(session|grant)\/([0-9a-f-]{36})$/;

/** Returns who is at the other end of a connection that TLS has verified, and the public key of its certificate. */
export function peerOf(socket: TLSSocket): { subject: Subject; publicKey: KeyObject } | undefined {
  const found = socket.getPeerX509Certificate();
  const [, kind, id] = SUBJECT.exec(found?.subject ?? '') ?? [];
  if (found === undefined || id === undefined) return undefined;
  const subject = { kind: kind === 'session' ? 'session' : 'grant', id } as const;
  return { subject, publicKey: found.publicKey };
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
  const bytes = signedBytes(socket, text);
  if (!verify(null, bytes, sender, Buffer.from(signature, 'base64url'))) return undefined;
  const value: unknown = JSON.parse(Buffer.from(text, 'base64url').toString('utf8'));
  return identityShape.safeParse(value).data;
}
