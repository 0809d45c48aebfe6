import type { Db } from '../db/pool.ts'
import type { Service } from '../http/service.ts'
import type { Uuid } from '../kernel/ids.ts'
import type { Clients } from './clients.ts'
import type { Provider } from './provider.ts'

export type SignInParts = {
  readonly service: Service
  readonly providers: readonly Provider[]
  readonly clients: Clients
  /** Finds a provider's account by its current name or its id. */
  readonly findAccount: (db: Db, nameOrId: string) => Promise<{ id: Uuid } | undefined>
  readonly warn: (facts: object, message: string) => void
}
