/** What somebody typed for a command that is answered elsewhere: options by their long names, and the rest. */
export interface TypedLine {
  readonly command: string;
  readonly options: readonly (readonly [name: string, value: string | null])[];
  readonly words: readonly string[];
}

export interface WhichAccount {
  readonly account: string;
  readonly tenant: string | undefined;
}
