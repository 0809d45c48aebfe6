import { existsSync } from 'node:fs'
import { withDatabase } from '../commands/database.ts'
import { type Config, type EdgeConfig, readConfig, readEdgeConfig } from '../config/config.ts'
import type { DbPool } from '../db/pool.ts'
import { controlPlaneEnvironment, edgeEnvironment } from './environment.ts'
import { folders } from './files.ts'

const ownerUrlFile = `${folders.controlPlane}/database-owner-url`

export const serveConfig = (): Config =>
  readConfig({ ...controlPlaneEnvironment(), GATEHOUSE_DATABASE_URL_FILE: `${folders.controlPlane}/database-url` })

export const ownerConfig = (): Config =>
  readConfig({
    ...controlPlaneEnvironment(),
    GATEHOUSE_DATABASE_URL_FILE: ownerUrlFile,
    GATEHOUSE_DATABASE_APP_ROLE: 'gatehouse_app',
  })

export const edgeConfig = (): EdgeConfig => readEdgeConfig(edgeEnvironment())

const isSet = ({ GATEHOUSE_DATABASE_URL, GATEHOUSE_DATABASE_URL_FILE }: NodeJS.ProcessEnv): boolean =>
  Boolean(GATEHOUSE_DATABASE_URL || GATEHOUSE_DATABASE_URL_FILE)

/** Whether an operator's command, which needs the database, can run here. */
export const hasDatabaseHere = (environment: NodeJS.ProcessEnv = process.env): boolean =>
  isSet(environment) || existsSync(ownerUrlFile)

/** For commands that an operator runs as root: settings from the environment, or of this machine's installation. */
const here =
  (installed: () => Config) =>
  (environment: NodeJS.ProcessEnv = process.env): Config =>
    isSet(environment) || !existsSync(ownerUrlFile) ? readConfig(environment) : installed()

export const serveConfigHere = here(serveConfig)
export const ownerConfigHere = here(ownerConfig)

/** False while the settings, the role or the tables are missing. The step itself reports any other fault. */
export const holds = async (config: () => Config, look: (db: DbPool) => Promise<boolean>): Promise<boolean> => {
  try {
    return await withDatabase(config(), look)
  } catch {
    return false
  }
}
