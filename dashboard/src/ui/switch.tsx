import { Switch as AriaSwitch, type SwitchProps } from 'react-aria-components'

type Props = Omit<SwitchProps, 'children' | 'className'> & { children: string }

export function Switch({ children, ...rest }: Props) {
  return (
    <AriaSwitch className="switch" {...rest}>
      <span className="track" />
      {children}
    </AriaSwitch>
  )
}
