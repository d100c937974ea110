/**
 * What mailparser 3.9 keeps while it parses and does not document. The package is pinned to one version, and
 * test/mime/part-tree.test.ts fails when another one parses in another way.
 */
import type { Transform } from 'node:stream';

declare module 'mailparser' {
  /** A part as mailsplit found it; values are decoded as headers are. */
  interface SplitPart {
    readonly contentType: string | false;
    readonly charset: string | false;
    readonly disposition: string | false;
    readonly filename: string | false;
    readonly flowed: boolean;
    readonly delSp: boolean;
    readonly multipart: string | false;
    readonly parentNode: SplitPart | false;
    readonly encoding: string | false;
    /** False before `parseHeaders`. */
    readonly headers: false | { getList(): { readonly key: string; readonly line: string }[] };
    /** The delimiter of the parts inside, and that of the part around with the part whose it is. */
    readonly _boundary: Buffer | false;
    readonly _parentBoundary: Buffer | false;
    readonly _parentBoundaryOwner: SplitPart | false;
    parseHeaders(): void;
    /** Makes the stream that undoes the transfer encoding. */
    getDecoder(): Transform;
    /** Takes a line of the header block, its line end included. */
    addHeaderChunk(line?: Buffer | false): void;
  }

  /** What mailsplit hands over: a part's header block, a piece of a leaf, or what lies between parts. */
  type SplitChunk =
    | (SplitPart & { readonly type: 'node' })
    | {
        readonly type: 'body' | 'data';
        readonly node: SplitPart;
        readonly value?: Buffer;
      };

  interface Splitter extends Transform {
    /** 1 for a delimiter line, 2 for a closing one. */
    compareBoundary(line: Buffer, start: number, boundary: Buffer): 1 | 2 | false;
    /** The part whose lines are read; the first is made by the constructor, others by `newNode`. */
    readonly node: SplitPart;
    newNode(parent?: SplitPart | false): void;
  }

  /** A part in mailparser's tree. `decoder` undoes the transfer encoding; multiparts have none. */
  interface TreePart {
    readonly node: SplitPart;
    readonly contentType: string | false;
    readonly headers: Map<string, unknown>;
    readonly headerLines: readonly { readonly key: string; readonly line: string }[];
    readonly children: TreePart[];
    readonly decoder?: Transform;
    disposition?: string;
    isAttachment?: boolean;
  }

  interface MailParser {
    readonly tree: TreePart | false;
    readonly splitter: Splitter;
    createNode(part: SplitPart): TreePart;
    processHeaders(lines: readonly { key: string; line: string }[] | false): Map<string, unknown>;
    processChunk(chunk: SplitChunk, done: (error?: Error) => void): void;
    getTextContent(): { type: 'text' };
  }

  interface MailParserOptions {
    /** Handed on to mailsplit. */
    maxChildNodes?: number;
    maxHeadSize?: number;
    ignoreEmbedded?: boolean;
    keepDeliveryStatus?: boolean;
  }
}
