import type { Logger } from 'pino'
import type { Config } from '../config/config.ts'
import type { PlainRoute } from '../http/plain.ts'
import type { Service } from '../http/service.ts'
import { systemClock } from '../kernel/clock.ts'
import { ConfigError } from '../kernel/config_error.ts'
import { createClients } from '../sign_in/clients.ts'
import { commandRoutes } from '../sign_in/command_routes.ts'
import { invitationRoutes } from '../sign_in/invitation_routes.ts'
import { oidcRoutes } from '../sign_in/oidc_routes.ts'
import type { Provider } from '../sign_in/provider.ts'
import { sessionRoutes } from '../sign_in/session_routes.ts'
import { findAccount } from './accounts/find.ts'

/** The operator's sign-in providers. Reads the file once, and loads the parser only if there is a file. */
export async function readSignInProviders(config: Config): Promise<readonly Provider[]> {
  const file = config.GATEHOUSE_OIDC_FILE
  const providers = file ? (await import('../sign_in/providers_file.ts')).readProviders(file) : []
  if (!config.GATEHOUSE_TOKEN_SIGN_IN && config.GATEHOUSE_DASHBOARD && providers.length === 0)
    throw new ConfigError(
      'GATEHOUSE_TOKEN_SIGN_IN is off and no provider is configured, so no one could sign in. Set GATEHOUSE_OIDC_FILE, or GATEHOUSE_DASHBOARD=off',
    )
  return providers
}

/** Routes for signing in. Contacts no provider yet, so `serve` starts while they are down. */
export async function signInRoutes(config: Config, log: Pick<Logger, 'warn'>) {
  const providers = await readSignInProviders(config)
  const clients = createClients(systemClock)
  const warn = (facts: object, message: string) => log.warn(facts, message)
  return (service: Service): readonly PlainRoute[] => {
    const parts = { service, providers, clients, findAccount, warn }
    return [
      ...sessionRoutes(parts, config.GATEHOUSE_TOKEN_SIGN_IN),
      ...(providers.length ? oidcRoutes(parts) : []),
      ...commandRoutes(service),
      ...invitationRoutes(parts),
    ]
  }
}
