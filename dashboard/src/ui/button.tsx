import { Button as AriaButton, type ButtonProps } from 'react-aria-components'
import { Icon, type IconName } from './icons.tsx'

type Props = Omit<ButtonProps, 'children' | 'className'> & {
  children: string
  kind?: 'primary' | 'plain' | 'danger' | 'quiet'
  icon?: IconName
  /** Shows only the icon; screen readers still get the text. */
  iconOnly?: boolean
  isSmall?: boolean
}

export function Button({ children, kind = 'plain', icon, iconOnly, isSmall, ...rest }: Props) {
  return (
    <AriaButton className={`button ${kind}${iconOnly ? ' icon-only' : ''}${isSmall ? ' small' : ''}`} {...rest}>
      {icon && <Icon name={icon} />}
      <span className={iconOnly ? 'for-readers' : undefined}>{children}</span>
    </AriaButton>
  )
}
