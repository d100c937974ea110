import { once } from 'node:events';
import { connect as plainly } from 'node:net';
import { connect } from 'node:tls';
import { afterEach, describe, expect, test } from 'vitest';
import { hasCode } from '../../src/core/errors.ts';
import { openLink } from '../../src/fleet/link/dial.ts';
import { BadFrame, FRAME, frame, framesOf, framesWith } from '../../src/fleet/link/frames.ts';
import { identityOf, LINK_TLS, linkKey } from '../../src/fleet/link/link-keys.ts';
import { type LinkListener, listenForNodes } from '../../src/fleet/link/listen.ts';
import { FleetKeys } from '../../src/fleet/secrets.ts';

const FLEET = '0f0e0d0c-0b0a-4908-8706-050403020100';
const OTHER = '1f0e0d0c-0b0a-4908-8706-050403020100';
const [OLD, NEW, ALIEN] = ['1', '2', '3'].map((digit) => digit.repeat(64));
const listeners: LinkListener[] = [];
const { signal } = new AbortController();

afterEach(async () => {
  for (const listener of listeners.splice(0)) await listener.close();
});

function keysOf(...lines: readonly string[]): () => FleetKeys {
  return () => FleetKeys.parse(lines.join('\n'), 'keys');
}

/** A node that answers with what it was sent. */
async function node(keys: () => FleetKeys, limits: object = {}): Promise<LinkListener> {
  const listener = await listenForNodes({
    listen: { host: '127.0.0.1', port: 0 },
    secrets: { fleet: FLEET, keys },
    answer: (request, response) => void request.pipe(response),
    limits,
  });
  listeners.push(listener);
  return listener;
}

async function said({ address }: LinkListener, keys: () => FleetKeys, fleet = FLEET) {
  const target = { node: 'one', ...address };
  const link = await openLink(target, { fleet, keys }, '/', signal);
  try {
    await link.send(frame(FRAME.output, Buffer.from('hello')));
    for await (const { bytes } of link.frames) return bytes.toString();
    return undefined;
  } finally {
    link.close();
  }
}

const codeOf = async (said: Promise<unknown>) => {
  try {
    return await said;
  } catch (error) {
    return hasCode(error, 'fleet-link-refused') ? error.code : error;
  }
};

describe('links between nodes', () => {
  test('need a key of the fleet, and take the old and the new one during a rotation', async () => {
    const [before, after] = [keysOf(`old ${OLD}`), keysOf(`new ${NEW}`, `old ${OLD}`)];
    const [early, late] = [await node(before), await node(after)];
    // Whoever has the new key first tries it, then the other one.
    for (const [listener, keys] of [
      [early, before],
      [early, after],
      [late, before],
      [late, after],
    ] as const) {
      expect(await said(listener, keys)).toBe('hello');
    }
    const strange = [keysOf(`old ${ALIEN}`), keysOf(`alien ${ALIEN}`), keysOf(`new ${NEW}`)];
    for (const keys of strange) {
      expect(await codeOf(said(early, keys))).toBe('fleet-link-refused');
    }
    // The same file of keys in another fleet.
    expect(await codeOf(said(early, before, OTHER))).toBe('fleet-link-refused');
  });

  test('have forward secrecy, and are not resumed', async () => {
    const key = Buffer.from(OLD ?? '', 'hex');
    const { address } = await node(keysOf(`old ${OLD}`));
    const dial = (options: object) =>
      connect({
        ...{ ...LINK_TLS, ...address, checkServerIdentity: () => undefined },
        pskCallback: () => ({ psk: linkKey(key, FLEET), identity: identityOf('old') }),
        ...options,
      });
    const socket = dial({});
    await once(socket, 'secureConnect');
    expect([socket.getCipher().standardName, socket.getEphemeralKeyInfo()]).toEqual([
      'TLS_ECDHE_PSK_WITH_CHACHA20_POLY1305_SHA256',
      expect.objectContaining({ type: 'ECDH' }),
    ]);
    const again = dial({ session: socket.getSession() });
    await once(again, 'secureConnect');
    expect([socket.getTLSTicket(), again.isSessionReused()]).toEqual([undefined, false]);
    // Neither another suite nor the key of the fleet itself.
    const others = [
      { ciphers: 'PSK-AES256-GCM-SHA384' },
      { pskCallback: () => ({ psk: key, identity: identityOf('old') }) },
      { ciphers: 'ECDHE-PSK-CHACHA20-POLY1305:HIGH', pskCallback: undefined },
    ];
    for (const options of others)
      await expect(once(dial(options), 'secureConnect')).rejects.toThrow();
    for (const one of [socket, again]) one.destroy();
  });

  test('are there for nodes, however many strangers connect', async () => {
    const keys = keysOf(`old ${OLD}`);
    const listener = await node(keys, { strangers: 4 });
    const strangers = Array.from({ length: 12 }, () => plainly(listener.address));
    await Promise.all(strangers.map((socket) => once(socket, 'connect')));
    const closed = strangers.map((socket) => once(socket, 'close'));
    for (const socket of strangers) socket.on('error', () => undefined).resume();
    expect(await said(listener, keys)).toBe('hello');
    await Promise.all(closed.slice(0, 8));
    // What is no handshake is refused at once.
    const noise = plainly(listener.address);
    noise.write('POST / HTTP/1.1\r\n\r\n');
    await once(noise.resume(), 'close');
  });

  test('carry frames of a bounded size', async () => {
    const bytes = Buffer.alloc(600_000, 7);
    const whole = Buffer.concat([...framesWith(FRAME.output, bytes), frame(FRAME.alive)]);
    // However they are cut.
    for (const size of [1_000, 65_536, whole.length]) {
      const found: Buffer[] = [];
      for await (const one of framesOf(pieces(whole, size))) found.push(one.bytes);
      expect(Buffer.concat(found).equals(bytes)).toBe(true);
    }
    const bad = [
      whole.subarray(0, whole.length - 1),
      Buffer.from([FRAME.output, 0xff, 0, 0, 0, 1]),
      Buffer.from([99, 0, 0, 0, 0]),
    ];
    for (const one of bad) {
      const read = async () => {
        for await (const _ of framesOf(pieces(one, 10)));
      };
      await expect(read()).rejects.toBeInstanceOf(BadFrame);
    }
  });
});

async function* pieces(bytes: Buffer, size: number): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}
