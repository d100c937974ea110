/**
 * What mailparser 3.9 keeps and does not document: how it reads the header of a part. The package is pinned to one
 * version, and test/mime/part-tree.test.ts fails when another one reads in another way.
 */
declare module 'mailparser' {
  /** A part as mailsplit sees it; values are decoded as headers are. */
  interface SplitPart {
    readonly contentType: string | false;
    readonly charset: string | false;
    readonly disposition: string | false;
    readonly filename: string | false;
    readonly flowed: boolean;
    readonly delSp: boolean;
    readonly encoding: string | false;
    /** False before `parseHeaders`. */
    readonly headers: false | { getList(): { readonly key: string; readonly line: string }[] };
    /** The boundary between the parts inside. */
    readonly _boundary: Buffer | false;
    parseHeaders(): void;
    /** Takes lines of the header block, their ends included. */
    addHeaderChunk(lines: Buffer): void;
  }

  interface MailParser {
    readonly splitter: { readonly node: SplitPart };
  }
}

export {};
