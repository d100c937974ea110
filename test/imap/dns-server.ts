import { createSocket } from 'node:dgram';
import { promises as dns } from 'node:dns';
import { once } from 'node:events';

export interface Srv {
  readonly priority?: number;
  readonly weight?: number;
  readonly port: number;
  readonly target: string;
}

const SRV = 33;
const NXDOMAIN = 3;

function encodeName(name: string): Buffer {
  const labels = name.split('.').filter((label) => label !== '');
  return Buffer.concat([
    ...labels.map((label) => Buffer.concat([Buffer.from([label.length]), Buffer.from(label)])),
    Buffer.from([0]),
  ]);
}

/** Answers SRV questions of this process from a table by name, over UDP (RFC 1035, RFC 2782). */
export async function serveDns(records: Readonly<Record<string, readonly Srv[]>>) {
  const socket = createSocket('udp4');
  const asked: string[] = [];
  socket.on('message', (question, from) => {
    const labels: string[] = [];
    let at = 12;
    while ((question[at] ?? 0) > 0) {
      const length = question[at] ?? 0;
      labels.push(question.toString('latin1', at + 1, at + 1 + length));
      at += 1 + length;
    }
    const name = labels.join('.').toLowerCase();
    asked.push(name);
    const type = question.readUInt16BE(at + 1);
    const answers = type === SRV ? (records[name] ?? []) : [];
    const header = Buffer.alloc(12);
    question.copy(header, 0, 0, 2);
    header.writeUInt16BE(0x8180 | (answers.length === 0 ? NXDOMAIN : 0), 2);
    header.writeUInt16BE(1, 4);
    header.writeUInt16BE(answers.length, 6);
    const rest = answers.map(({ priority = 0, weight = 0, port, target }) => {
      const data = Buffer.concat([Buffer.alloc(6), encodeName(target)]);
      data.writeUInt16BE(priority, 0);
      data.writeUInt16BE(weight, 2);
      data.writeUInt16BE(port, 4);
      const fixed = Buffer.alloc(12);
      // The name of the question, 12 bytes after the start.
      fixed.writeUInt16BE(0xc00c, 0);
      fixed.writeUInt16BE(SRV, 2);
      fixed.writeUInt16BE(1, 4);
      fixed.writeUInt16BE(data.length, 10);
      return Buffer.concat([fixed, data]);
    });
    socket.send(Buffer.concat([header, question.subarray(12, at + 5), ...rest]), from.port);
  });
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  const before = dns.getServers();
  dns.setServers([`127.0.0.1:${socket.address().port}`]);
  return {
    asked,
    async stop() {
      dns.setServers(before);
      socket.close();
      await once(socket, 'close');
    },
  };
}
