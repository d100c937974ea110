import { once } from 'node:events';
import { connect, type TLSSocket } from 'node:tls';
import {
  bodyHash,
  certify,
  IDENTITY_HEADER,
  NODE_TLS,
  type NodeCertificate,
  type RequestIdentity,
  type Subject,
  signIdentity,
} from '../../../src/fleet/node-identity.ts';
import { FLEET, type GatewayNode, KEYS } from './gateways.ts';

export interface RawAnswer {
  readonly status: number;
  readonly refused: string | undefined;
  readonly body: string;
}

/** A connection to the listener for nodes, on which a test says exactly what is sent. */
export class RawPeer {
  #received = '';

  private constructor(
    readonly socket: TLSSocket,
    readonly subject: Subject,
    readonly certificate: NodeCertificate,
  ) {
    socket.on('data', (bytes) => {
      this.#received += bytes.toString('latin1');
    });
  }

  /** @param from other keys than the fleet's, or null for no certificate */
  static async connect(node: GatewayNode, subject: Subject, from: typeof KEYS | null = KEYS) {
    const certificate = certify(from ?? KEYS, FLEET, subject);
    const { cert, key } = certificate;
    const socket = connect({
      ...{ ...NODE_TLS, ...node.gateway.address, ca: certify(KEYS, FLEET, subject).ca },
      ...(from === null ? {} : { cert, key }),
      checkServerIdentity: () => undefined,
    });
    await once(socket, 'secureConnect');
    return new RawPeer(socket, subject, certificate);
  }

  sign(identity: RequestIdentity, key = this.certificate.privateKey): string {
    return signIdentity(identity, key, this.socket);
  }

  /** Sends a request with a header, and returns what is answered. @throws Error if the connection ends before */
  async send(
    header: string | null,
    { method = 'GET', target = '/api/rows', body = '' } = {},
  ): Promise<RawAnswer> {
    const fields = header === null ? '' : `${IDENTITY_HEADER}: ${header}\r\n`;
    this.#received = '';
    this.socket.write(
      `${method} ${target} HTTP/1.1\r\nhost: x\r\n${fields}content-length: ${body.length}\r\n\r\n${body}`,
    );
    for (;;) {
      const end = this.#received.indexOf('\r\n\r\n');
      const head = this.#received.slice(0, Math.max(0, end));
      const length = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? Number.NaN);
      const rest = this.#received.slice(end + 4);
      if (end >= 0 && rest.length >= length) {
        return {
          status: Number(head.slice(9, 12)),
          refused: /mailkeep-refused: (\w+)/.exec(head)?.[1],
          body: rest,
        };
      }
      if (this.socket.readableEnded || this.socket.destroyed) throw new Error('cut off');
      await Promise.race([once(this.socket, 'data'), once(this.socket, 'close')]);
    }
  }

  close(): void {
    this.socket.destroy();
  }
}

export function identityOf(
  known: Pick<RequestIdentity, 'grant' | 'account' | 'shard' | 'epoch'>,
  { sequence = 1, method = 'GET', target = '/api/rows', body = '' } = {},
): RequestIdentity {
  const reached = { host: 'mail.example.org', origin: 'https://mail.example.org', secure: true };
  return { ...known, sequence, method, target, body: bodyHash(Buffer.from(body)), reached };
}
