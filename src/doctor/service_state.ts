import { type Finding, failed, ok, warning } from './finding.ts'
import type { Service } from './services.ts'

/** Whether systemd runs the unit now, and would after a reboot. */
export function checkServiceState({ unit, kind, state }: Service): Finding[] {
  const check = 'service.state'
  if (state.load === 'masked')
    return [failed(check, `${unit} is masked, so systemd does not start it`, `Run: systemctl unmask ${unit}`)]
  if (state.load !== 'loaded')
    return [
      failed(check, `systemd has no unit ${unit}`, "'systemctl list-unit-files gatehouse*' shows those there are"),
    ]
  const log = `Correct what fails below; the log is in: journalctl -u ${unit} -n 20`
  if (state.active === 'failed')
    return [failed(check, `${unit} failed: ${state.result}, exit status ${state.exitStatus}`, log)]
  if (state.sub === 'auto-restart')
    return [failed(check, `${unit} ends again and again, with exit status ${state.exitStatus}`, log)]
  if (kind === 'migrate' || kind === 'backup') return [ok(check, `${unit} has not failed`)]
  return [
    state.active === 'active'
      ? ok(check, `${unit} is running`)
      : warning(check, `${unit} is not running (${state.active})`, `Run: systemctl start ${unit}`),
    ...(state.atBoot === 'disabled'
      ? [warning(check, `${unit} does not start when the machine does`, `Run: systemctl enable ${unit}`)]
      : []),
  ]
}

/** A NATS password is needed only with a user: joined nodes have a JWT. */
export function checkCredentials({ environment, missingCredentials }: Service): Finding[] {
  return missingCredentials
    .filter(({ setting }) => setting !== 'GATEHOUSE_NATS_PASSWORD_FILE' || environment.GATEHOUSE_NATS_USER)
    .map(({ setting, file }) =>
      failed(
        'service.credentials',
        `the file of ${setting} is to be a copy of ${file}, which does not exist`,
        "Write the value, alone, into this file with mode 600, or let 'gatehouse setup' make it",
      ),
    )
}

export const isRunning = ({ state }: Service): boolean => state.active === 'active'
