import { Icon } from './icons.tsx'

type Props = { name: string; kind?: 'user' | 'bot'; isOwn?: boolean }

/** An initial, or a robot's head. Decorative, because the name is beside it. */
export function Avatar({ name, kind = 'user', isOwn }: Props) {
  return (
    <span className={`avatar ${kind}${isOwn ? ' own' : ''}`} aria-hidden="true">
      {kind === 'bot' ? <Icon name="bot" /> : [...name][0]?.toUpperCase()}
    </span>
  )
}
