// The settings with which this machine's services start.
import { accessSync, constants, readFileSync } from 'node:fs'
import { parseEnv } from 'node:util'
import { type Folders, folders, secretsCredential } from './files.ts'

/** In systemd's order: the later file wins. Users other than root may be unable to read some of them. */
const environmentOf = (...files: string[]): NodeJS.ProcessEnv =>
  Object.assign({}, ...files.filter(isReadable).map((file) => parseEnv(readFileSync(file, 'utf8'))))

function isReadable(file: string): boolean {
  try {
    accessSync(file, constants.R_OK)
    return true
  } catch {
    return false
  }
}

export function controlPlaneEnvironment({ controlPlane }: Pick<Folders, 'controlPlane'> = folders): NodeJS.ProcessEnv {
  const settings = environmentOf(`${controlPlane}/setup.env`, `${controlPlane}/gatehouse.env`)
  const isCredential = settings.GATEHOUSE_SECRETS_KEY_FILE === secretsCredential
  return { ...settings, ...(isCredential && { GATEHOUSE_SECRETS_KEY_FILE: `${controlPlane}/secrets.key` }) }
}

export const edgeEnvironment = (): NodeJS.ProcessEnv =>
  environmentOf(`${folders.edge}/setup.env`, `${folders.edge}/joined.env`, `${folders.edge}/edge.env`)

/** For commands that query this machine's services, which listen where their settings say. */
export const environmentHere = (): NodeJS.ProcessEnv => ({
  ...controlPlaneEnvironment(),
  ...edgeEnvironment(),
  ...process.env,
})
