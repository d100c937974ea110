import type { Socket } from 'node:net';
import type { Fault } from './faults.ts';
import { ImapStream, type Piece } from './imap-stream.ts';

export type CommandFault = Extract<Fault, { command: string }>;

/** A command as the client sent it. */
export interface SentCommand {
  /** From 1, in the order they were accepted. */
  readonly connection: number;
  readonly tag: string;
  /** In capitals; with UID and what follows it. */
  readonly verb: string;
  /** The first line without tag and line end; for a login only the verb. */
  readonly text: string;
}

/** What the connections of a proxy share. */
export interface Script {
  /** Records a command; returns what is to happen to it. */
  meet(command: SentCommand): CommandFault | undefined;
  /** How many of these bytes may pass before the connection is cut; undefined for all. */
  allow(to: 'server' | 'client', bytes: number): number | undefined;
  /** Reports whether a line of the server is left out. */
  omits(line: string): boolean;
  /** Reports that something happened. */
  report(fault: Fault): void;
}

interface CurrentCommand {
  readonly tag: string;
  readonly fault: CommandFault | undefined;
  /** Whether the client sends no more of it before it is invited. */
  waits: boolean;
}

/** Encrypted or compressed commands could not be read on their way. */
const REFUSED = new Set(['STARTTLS', 'COMPRESS']);
/** They happen while the client sends. */
const OF_LITERAL: ReadonlySet<CommandFault['do']> = new Set([
  'answer',
  'cut-in-literal',
  'deliver-late',
]);
const SECRET = new Set(['LOGIN', 'AUTHENTICATE']);

/** One connection of a client, and that to the server which belongs to it. */
export class ProxiedConnection {
  readonly #number: number;
  readonly #client: Socket;
  readonly #server: Socket;
  readonly #script: Script;
  readonly #sent = new ImapStream();
  readonly #answered = new ImapStream();
  /** The command that the client has begun and not finished. */
  #current: CurrentCommand | undefined;
  /** Those whose answers something happens to. */
  readonly #awaited = new Map<string, CommandFault>();
  #isCut = false;
  /** What the server has not got of a command whose client has gone. */
  #late: Buffer | undefined;
  #kept: Buffer | undefined;
  /** What waits, by its direction. A client can send commands while an answer waits. */
  #held: { server?: Piece[]; client?: Piece[] } = {};

  constructor(number: number, client: Socket, server: Socket, script: Script) {
    this.#number = number;
    this.#client = client;
    this.#server = server;
    this.#script = script;
    this.#read(client, this.#sent, 'server');
    this.#read(server, this.#answered, 'client');
  }

  /** Ends both connections. */
  cut(): void {
    this.#isCut = true;
    this.#client.destroy();
    this.#server.destroy();
  }

  /** Lets the server have what is late, and waits for its answer. */
  deliver(): Promise<void> {
    const late = this.#late;
    this.#late = undefined;
    if (late === undefined) return Promise.resolve();
    return new Promise((resolve) => {
      this.#server.once('data', () => this.cut());
      this.#server.once('close', () => resolve());
      // It may have crashed meanwhile.
      if (this.#server.destroyed) resolve();
      else this.#server.write(late);
    });
  }

  /** Lets pass what was held. */
  release(): void {
    const { server = [], client = [] } = this.#held;
    this.#held = {};
    for (const piece of server) this.#handle('server', piece);
    for (const piece of client) this.#handle('client', piece);
  }

  #read(from: Socket, stream: ImapStream, to: 'server' | 'client'): void {
    from.on('data', (bytes) => {
      for (const piece of stream.push(bytes)) this.#handle(to, piece);
    });
    from.on('error', () => {});
    // What was sent before still arrives.
    from.on('close', () => {
      if (to === 'client') this.#client.end();
      else if (this.#late === undefined) this.#server.end();
    });
  }

  #handle(to: 'server' | 'client', piece: Piece): void {
    const held = this.#held[to];
    if (this.#isCut) return;
    if (held !== undefined) held.push(piece);
    else if (to === 'server') this.#fromClient(piece);
    else this.#fromServer(piece);
  }

  #fromClient(piece: Piece): void {
    if (piece.kind === 'line' && this.#current === undefined) this.#begin(piece.bytes);
    if (this.#isCut) return;
    if (this.#held.server !== undefined) {
      this.#held.server.push(piece);
      return;
    }
    const { tag = '', fault } = this.#current ?? {};
    const ends = piece.kind === 'line' && piece.literal === undefined;
    if (this.#current !== undefined)
      this.#current.waits = piece.kind === 'line' && piece.literal?.waits === true;
    if (fault?.do === 'answer') this.#answer(tag, fault, ends);
    else if (fault?.do === 'cut-in-literal' && piece.kind === 'literal') this.#cutIn(piece, fault);
    else if (fault?.do === 'deliver-late') this.#deliverLate(piece, fault, ends);
    else this.#pass('server', piece.bytes);
    if (ends) this.#current = undefined;
  }

  /** A line without a tag continues a command, such as a login. */
  #begin(line: Buffer): void {
    const text = line.toString('utf8').trimEnd();
    const [tag = '', first = '', second = ''] = text.split(' ');
    if (first === '') return;
    const word = first.toUpperCase();
    const verb = word === 'UID' ? `UID ${second.toUpperCase()}` : word;
    const shown = SECRET.has(verb) ? verb : text.slice(tag.length + 1);
    const met = this.#script.meet({ connection: this.#number, tag, verb, text: shown });
    const refusal = { command: verb, nth: 0, do: 'answer', text: 'NO Not through here' } as const;
    const fault = REFUSED.has(verb) ? refusal : met;
    this.#current = { tag, fault, waits: false };
    if (fault === undefined) return;
    if (fault.do === 'cut-before') {
      this.#script.report(fault);
      this.cut();
    } else if (fault.do === 'hold-command') {
      this.#held.server = [];
      this.#script.report(fault);
    } else if (!OF_LITERAL.has(fault.do)) {
      this.#awaited.set(tag, fault);
    }
  }

  #answer(tag: string, fault: CommandFault & { do: 'answer' }, ends: boolean): void {
    const waits = this.#current?.waits === true;
    const isEarly = waits && fault.early === true;
    if (waits && !isEarly) this.#client.write('+ Ready\r\n');
    if (!ends && !isEarly) return;
    if (!REFUSED.has(fault.command)) this.#script.report(fault);
    this.#client.write(`${tag} ${fault.text}\r\n`);
    this.#refuseLiteral();
  }

  /** The command that the client wanted to continue has its answer. */
  #refuseLiteral(): void {
    this.#sent.abandonLiteral();
    this.#current = undefined;
  }

  #cutIn(piece: Piece & { kind: 'literal' }, fault: CommandFault & { do: 'cut-in-literal' }): void {
    const size = piece.bytes.length + piece.remaining;
    const passed = Math.min(fault.bytes ?? Math.floor(size / 2), piece.bytes.length);
    this.#script.report(fault);
    this.#cutAfter(this.#server, piece.bytes.subarray(0, passed));
  }

  /** Keeps what follows the first bytes of the first literal until the command is complete, and its client goes. */
  #deliverLate(piece: Piece, fault: CommandFault, ends: boolean): void {
    if (piece.kind === 'line' && this.#kept === undefined && !ends)
      this.#pass('server', piece.bytes);
    else this.#kept = Buffer.concat([this.#kept ?? Buffer.alloc(0), piece.bytes]);
    if (!ends) return;
    this.#late = this.#kept;
    this.#isCut = true;
    this.#script.report(fault);
    this.#client.destroy();
  }

  #fromServer(piece: Piece): void {
    const text = piece.kind === 'line' ? piece.bytes.toString('latin1') : '';
    if (this.#script.omits(text)) return;
    const tag = text.slice(0, Math.max(0, text.indexOf(' ')));
    const fault = this.#awaited.get(tag);
    this.#awaited.delete(tag);
    if (this.#current?.tag === tag && this.#current.waits) this.#refuseLiteral();
    if (fault?.do === 'hold-answer') {
      this.#held.client = [piece];
      this.#script.report(fault);
    } else if (fault === undefined) this.#pass('client', piece.bytes);
    else {
      this.#script.report(fault);
      this.cut();
    }
  }

  #pass(to: 'server' | 'client', bytes: Buffer): void {
    const socket = to === 'server' ? this.#server : this.#client;
    const allowed = this.#script.allow(to, bytes.length);
    if (allowed === undefined) socket.write(bytes);
    else this.#cutAfter(socket, bytes.subarray(0, allowed));
  }

  /** These bytes are the last that arrive. */
  #cutAfter(socket: Socket, bytes: Buffer): void {
    this.#isCut = true;
    socket.write(bytes, () => this.cut());
  }
}
