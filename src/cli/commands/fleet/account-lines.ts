/** What of an account the commands below `fleet account` were given. */
export interface AccountLine {
  readonly tenant?: string;
}

export interface AddLine extends AccountLine {
  readonly settings: string;
  readonly tokenFile?: string;
  readonly tokenEnv?: string;
  readonly webhookSecretFile?: string;
  readonly webhookSecretEnv?: string;
}
