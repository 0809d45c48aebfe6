import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

/** The configuration uses features of this version; see docs/adr/0100. */
const oldest = { major: 3, minor: 4 }

/** Throws a message for the operator unless this HAProxy can run our configuration. Resolves to its version. */
export async function requireHaproxy(binary = 'haproxy', timeoutMs = 0): Promise<string> {
  const { stdout } = await promisify(execFile)(binary, ['-v'], { timeout: timeoutMs }).catch((error) => {
    throw new Error(`cannot run '${binary}': ${error.message}. Install HAProxy 3.4 or newer and put it on the PATH.`)
  })
  const [, version, major, minor] = /version ((\d+)\.(\d+)\S*)/.exec(stdout) ?? []
  if (version === undefined) throw new Error(`'${binary} -v' does not say its version: ${stdout.slice(0, 200)}`)
  if (Number(major) > oldest.major || (Number(major) === oldest.major && Number(minor) >= oldest.minor)) return version
  throw new Error(
    `HAProxy ${version} is too old: Gatehouse needs ${oldest.major}.${oldest.minor} or newer. ` +
      'docs/guides/add-an-edge-node.md says where to get it for your system.',
  )
}
