import { request as httpRequest, type IncomingMessage } from 'node:http';
import { connect, type TLSSocket } from 'node:tls';
import { errnoName } from '../../core/errors.ts';
import { fleetLinkError } from '../errors.ts';
import { type Frame, framesOf } from './frames.ts';
import { identityOf, LINK_TLS, type LinkSecrets, linkKey } from './link-keys.ts';

/** A node, and where it listens. */
export interface LinkTarget {
  readonly node: string;
  /** Host and port. */
  readonly host: string;
  readonly port: number;
}

/** Milliseconds until a node that does not answer is given up. */
const CONNECT_MS = 5_000;
/** More keys than these are not tried: a rotation has two. */
const MOST_KEYS = 4;

/** A request that is being answered. Closing it ends the work at the other node. */
export interface Link {
  readonly frames: AsyncIterable<Frame>;
  /** Resolves when more may be sent. */
  send(bytes: Uint8Array): Promise<void>;
  close(): void;
}

/**
 * Sends a request to a node, and begins to read the answer. The first key of this node is tried, then the others: during a
 * rotation not every node has the newest.
 *
 * @param path with letters that need no escape
 * @throws fleet-node-unreachable, fleet-link-refused; the signal's reason
 */
export async function openLink(
  target: LinkTarget,
  secrets: LinkSecrets,
  path: string,
  signal: AbortSignal,
): Promise<Link> {
  const socket = await securely(target, secrets, signal);
  const request = httpRequest({
    ...{ method: 'POST', path, createConnection: () => socket },
    ...{ host: target.host, headers: { 'content-type': 'application/octet-stream' } },
  });
  const close = (): void => {
    signal.removeEventListener('abort', close);
    request.destroy();
    socket.destroy();
  };
  signal.addEventListener('abort', close);
  // What ends a request also ends its answer, where it is noticed.
  request.on('error', () => undefined);
  const answered = new Promise<IncomingMessage>((resolve, reject) => {
    request.once('response', resolve);
    request.once('close', () => reject(unreachable(target, 'no answer')));
  });
  answered.catch(() => undefined);
  request.flushHeaders();
  return {
    frames: (async function* () {
      yield* framesOf(await answered);
    })(),
    async send(bytes) {
      if (request.write(bytes)) return;
      await new Promise<void>((resolve) => {
        request.once('drain', resolve);
        request.once('close', resolve);
      });
    },
    close,
  };
}

async function securely(
  target: LinkTarget,
  { fleet, keys }: LinkSecrets,
  signal: AbortSignal,
): Promise<TLSSocket> {
  const known = keys();
  for (const name of known.names.slice(0, MOST_KEYS)) {
    const key = known.key(name);
    if (key === undefined) continue;
    const psk = { psk: linkKey(key, fleet), identity: identityOf(name) };
    const socket = await connected(target, psk, signal);
    if (socket !== undefined) return socket;
  }
  throw fleetLinkError('fleet-link-refused', { node: target.node, address: addressOf(target) });
}

/** Undefined where the other side does not take the key. */
async function connected(
  target: LinkTarget,
  psk: { readonly psk: Buffer; readonly identity: string },
  signal: AbortSignal,
): Promise<TLSSocket | undefined> {
  signal.throwIfAborted();
  const { host, port } = target;
  const socket = connect({
    ...LINK_TLS,
    ...{ host, port },
    pskCallback: () => psk,
    // There are no certificates: whoever has the key is a node of the fleet.
    checkServerIdentity: () => undefined,
  });
  // A conversation is many small frames, each of which somebody waits for.
  socket.setNoDelay(true);
  let isConnected = false;
  socket.once('connect', () => {
    isConnected = true;
  });
  const giveUp = (): void => {
    socket.destroy(Object.assign(new Error('no answer'), { code: 'no answer' }));
  };
  const timer = setTimeout(giveUp, CONNECT_MS);
  signal.addEventListener('abort', giveUp);
  try {
    await new Promise<void>((resolve, reject) => {
      socket.once('secureConnect', resolve);
      socket.once('error', reject);
      socket.once('close', () => reject(new Error('closed')));
    });
    socket.on('error', () => undefined);
    return socket;
  } catch (error) {
    socket.destroy();
    signal.throwIfAborted();
    const reason = errnoName(error);
    if (!isConnected || reason === 'no answer') throw unreachable(target, reason, error);
    return undefined;
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', giveUp);
  }
}

function unreachable(target: LinkTarget, reason: string, cause?: unknown): Error {
  const address = addressOf(target);
  return fleetLinkError('fleet-node-unreachable', { node: target.node, address, reason }, cause);
}

function addressOf({ host, port }: LinkTarget): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}
