/** A worker thread that does as it is ordered: on its own port, or as the jobs of a pool. */
import { workerData } from 'node:worker_threads';
import {
  openThreadPort,
  PieceIntake,
  type PieceMessage,
  serveJobs,
} from '../../src/core/in-thread.ts';
import { mailError } from '../../src/mail/errors.ts';

export type Order =
  | { readonly do: 'echo' | 'throw'; readonly text: string }
  | { readonly do: 'bytes'; readonly bytes: Uint8Array<ArrayBuffer> }
  | { readonly do: 'exit'; readonly code: number }
  | { readonly do: 'hoard' | 'loop' | 'read' }
  | PieceMessage;

export type Answer =
  | { readonly text: string }
  | { readonly bytes: Uint8Array<ArrayBuffer> }
  | { readonly next: true }
  | { readonly read: number };

const { mode }: { mode: 'orders' | 'jobs' } = workerData;
if (mode === 'orders') takeOrders();
else takeJobs();

function takeOrders(): void {
  const intake = new PieceIntake(() => port.send({ next: true }));
  const port = openThreadPort<Order, Answer>((order) => {
    if ('kind' in order) intake.take(order);
    else if (order.do === 'echo') port.send({ text: order.text });
    else if (order.do === 'bytes') giveBack(order.bytes);
    else if (order.do === 'read') void read();
    else obey(order);
  });
  const giveBack = (bytes: Uint8Array<ArrayBuffer>): void => {
    const given = new Uint8Array(bytes);
    port.send({ bytes: given }, [given.buffer]);
    port.send({ text: `${given.byteLength} left` });
  };
  const read = async (): Promise<void> => {
    let bytes = 0;
    for await (const piece of intake.pieces()) bytes += piece.byteLength;
    port.send({ read: bytes });
  };
}

function takeJobs(): void {
  serveJobs<Order, string, string>(async (order, report) => {
    if ('kind' in order) return '';
    if (order.do === 'echo') {
      report(`on ${order.text}`);
      return order.text;
    }
    if (order.do === 'throw' && order.text === 'ours')
      throw mailError('mail-unreadable', { reason: 'x' });
    report('begun');
    obey(order);
    return '';
  });
}

function obey(order: Exclude<Order, PieceMessage>): void {
  if (order.do === 'throw') throw new Error(order.text);
  if (order.do === 'exit') process.exit(order.code);
  if (order.do === 'loop') for (;;);
  const kept: unknown[][] = [];
  while (order.do === 'hoard') kept.push(Array.from({ length: 10_000 }, (_, n) => ({ n })));
}
