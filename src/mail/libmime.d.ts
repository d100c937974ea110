/** The part of libmime 5.4 (which ships no types) that this project uses. */
declare module 'libmime' {
  /** Charsets and transfer encodings of mail headers; see RFC 2047 and RFC 2231. */
  export class Libmime {
    constructor(options?: object);
    /** Decodes every encoded word in a header value. */
    decodeWords(value: string): string;
    /** Decodes the content of an encoded word, or of a parameter rewritten as one. */
    decodeWord(charset: string, encoding: string, text: string): string;
    /** Undoes the soft line breaks of format=flowed (RFC 3676). */
    decodeFlowed(text: string, deleteSpace: boolean): string;
    /** Returns value and parameters of a structured header such as Content-Type, RFC 2231 continuations joined. */
    parseHeaderValue(value: string): { value: string | false; params: Record<string, string> };
    /** Returns the MIME type of a file name extension. */
    detectMimeType(extension: string): string;
  }
  const libmime: Libmime & { readonly Libmime: typeof Libmime };
  export default libmime;
}
