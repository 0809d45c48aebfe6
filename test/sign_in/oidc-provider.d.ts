declare module 'oidc-provider' {
  import type { IncomingMessage, ServerResponse } from 'node:http'

  // biome-ignore lint/style/noDefaultExport: it is how the package exports it.
  export default class Provider {
    constructor(issuer: string, configuration: object)
    callback(): (request: IncomingMessage, response: ServerResponse) => Promise<void>
    interactionFinished(request: IncomingMessage, response: ServerResponse, result: object): Promise<void>
    on(event: string, listener: (...facts: unknown[]) => void): this
    readonly Grant: new (
      fields: object,
    ) => { addOIDCScope(scope: string): void; save(): Promise<string> }
  }
}
