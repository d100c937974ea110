/** The part of libmime (which ships no types) that this room uses, as of 5.4. */
declare module 'libmime' {
  /** The charsets and transfer encodings of mail headers; see RFC 2047 and RFC 2231. */
  export class Libmime {
    constructor(options?: object);
    /** Decodes every encoded word in a header value. */
    decodeWords(value: string): string;
    /** Decodes the content of an encoded word, or of a parameter that is rewritten as one. */
    decodeWord(charset: string, encoding: string, text: string): string;
    /** Undoes the soft line breaks of format=flowed (RFC 3676). */
    decodeFlowed(text: string, deleteSpace: boolean): string;
    /** Value and parameters of a structured header such as Content-Type, RFC 2231 continuations joined. */
    parseHeaderValue(value: string): { value: string | false; params: Record<string, string> };
    /** File name extension to MIME type. */
    detectMimeType(extension: string): string;
  }
  const libmime: Libmime & { readonly Libmime: typeof Libmime };
  export default libmime;
}
