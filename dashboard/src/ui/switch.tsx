import { Switch as AriaSwitch, type SwitchProps } from 'react-aria-components'

type Props = Omit<SwitchProps, 'children' | 'className'> & {
  children: string
  /** For a row that says already what it is about. */
  labelHidden?: boolean
}

export function Switch({ children, labelHidden, ...rest }: Props) {
  return (
    <AriaSwitch className="switch" {...rest}>
      <span className="track" />
      <span className={labelHidden ? 'for-readers' : undefined}>{children}</span>
    </AriaSwitch>
  )
}
