// Package files that are generated from the program.
import type { Setting } from '../src/config/setting.ts'
import { version } from '../src/config/version.ts'

const program = (name: string): string => `/usr/lib/${name}/bin/node /usr/lib/${name}/dist/main.js`

/** `gatehouse` on the PATH, with the packaged Node. */
export const wrapper = (): string => `#!/bin/sh\nexec ${program('gatehouse')} "$@"\n`

/** `gatehouse-edge` is `gatehouse edge`, and the only command on a machine without the package `gatehouse`. */
export const edgeWrapper = (): string => `#!/bin/sh
run='${program('gatehouse-edge')}'
case "\${1-}" in
  help) exec $run help edge ;;
  doctor | version | --version) exec $run "$@" ;;
  *) exec $run edge "$@" ;;
esac
`

/** Every setting with its default, as a comment. */
export function sampleEnvironment(known: Record<string, Setting<unknown>>, without: string[]): string {
  const entries = Object.entries(known).filter(([name]) => !without.includes(name))
  const lines = entries.map(([name, { help, default: fallback = '' }]) => `# ${help}\n#${name}=${fallback}\n`)
  return `# Settings as systemd reads them (systemd.exec(5), EnvironmentFile=). After a change: systemctl restart the service.\n\n${lines.join('\n')}`
}

export function manPage(name: string, help: string, sourceDate: string): string {
  const day = new Date(Number(sourceDate) * 1_000).toISOString().slice(0, 10)
  // A leading dot or quote would start a request, and a backslash an escape.
  const text = help.replaceAll('\\', '\\e').replaceAll('-', '\\-').replaceAll(/^[.']/gm, '\\&$&')
  return [
    `.TH ${name.toUpperCase()} 1 "${day}" "Gatehouse ${version}"`,
    '.SH NAME',
    `${name} \\- ${name === 'gatehouse' ? 'control plane for API keys, IP restrictions and network edges' : 'edge node of Gatehouse'}`,
    '.SH DESCRIPTION',
    '.nf',
    text.trimEnd(),
    '.fi',
    '.SH FILES',
    `/etc/${name}, /usr/lib/${name}, /usr/share/doc/${name}/guides/install-debian.md`,
    '',
  ].join('\n')
}
