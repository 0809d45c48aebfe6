import { existsSync, readFileSync } from 'node:fs'
import { parseEnv } from 'node:util'
import { withDatabase } from '../commands/database.ts'
import { type Config, type EdgeConfig, readConfig, readEdgeConfig } from '../config/config.ts'
import type { DbPool } from '../db/pool.ts'
import { folders, secretsCredential } from './files.ts'

const ownerUrlFile = `${folders.controlPlane}/database-owner-url`

/** As systemd reads them for a service: the later file wins. */
const environmentOf = (...files: string[]): NodeJS.ProcessEnv =>
  Object.assign({}, ...files.filter(existsSync).map((file) => parseEnv(readFileSync(file, 'utf8'))))

function controlPlaneEnvironment(): NodeJS.ProcessEnv {
  const settings = environmentOf(`${folders.controlPlane}/setup.env`, `${folders.controlPlane}/gatehouse.env`)
  const isCredential = settings.GATEHOUSE_SECRETS_KEY_FILE === secretsCredential
  return { ...settings, ...(isCredential && { GATEHOUSE_SECRETS_KEY_FILE: `${folders.controlPlane}/secrets.key` }) }
}

export const serveConfig = (): Config =>
  readConfig({ ...controlPlaneEnvironment(), GATEHOUSE_DATABASE_URL_FILE: `${folders.controlPlane}/database-url` })

export const ownerConfig = (): Config =>
  readConfig({
    ...controlPlaneEnvironment(),
    GATEHOUSE_DATABASE_URL_FILE: ownerUrlFile,
    GATEHOUSE_DATABASE_APP_ROLE: 'gatehouse_app',
  })

export const edgeConfig = (): EdgeConfig =>
  readEdgeConfig(environmentOf(`${folders.edge}/setup.env`, `${folders.edge}/joined.env`, `${folders.edge}/edge.env`))

/** For commands that an operator types as root: settings in the environment, or those of the installation on this machine. */
export const ownerConfigHere = (environment: NodeJS.ProcessEnv = process.env): Config =>
  environment.GATEHOUSE_DATABASE_URL || environment.GATEHOUSE_DATABASE_URL_FILE || !existsSync(ownerUrlFile)
    ? readConfig(environment)
    : ownerConfig()

/** False, too, while the settings, the role or the tables are missing. What else is wrong, the step itself will say. */
export const holds = async (config: () => Config, look: (db: DbPool) => Promise<boolean>): Promise<boolean> => {
  try {
    return await withDatabase(config(), look)
  } catch {
    return false
  }
}
