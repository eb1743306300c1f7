"""Functions of Bessel and Airy on scalars, of orders 0 and 1.

As in `scalar_functions`, they are made of `m` and ``c``, and `tools/fit_coefficients.py` prints the coefficients. Near
a zero that lies among small arguments, J and Ai are exact to a few units in the last place, for they are products with
the distance to it. Elsewhere, and for Y, errors are that small relative to the size of the oscillation.
"""

from __future__ import annotations

from math import factorial, prod

from fastgrad.ops.scalar_functions import INF, NAN, SQRT_HALF, polynomial
from fastgrad.ops.vocabulary import c, m

TWO_OVER_PI = 0.6366197723675814
ROOT_OF_INVERSE_PI = 0.5641895835477563
EULER_LESS_LN_2 = -0.11593151565841245
FAR = 1e15  # from here on 1 / x is lost beside what it is added to

# Zeros, each as a number that float32 holds and what is left of it.
J0_ZEROS = (2.404825448989868, 1.0870590460455913e-07), (5.520078182220459, -7.19341483347784e-08)
J1_ZEROS = (3.8317060470581055, -7.685059315313556e-08), (7.015586853027344, -1.8321172499646294e-07)
AIRY_ZEROS = (-2.3381073474884033, -6.297136371817669e-08), (-4.087949275970459, -1.68160511632262e-07)

# sqrt(x) exp(-x) I(x) of order 0 and 1 in 16 / x - 1 for x >= 8.
BESSEL_0 = polynomial(
    0.4021765094450081, 0.003360551983667686, 0.00013621607438061978, 1.114303380553759e-05,
    1.483848045300007e-06, 2.9735949844436814e-07, 8.871426708910587e-08, 3.932996251226298e-08,
    2.1615866012375767e-08, 7.528456154708627e-09, -7.0849180804620235e-09, -1.3306550934276401e-08,
    -4.342488553406604e-09, 7.295448441390542e-09, 5.243665785776738e-09, -3.0816436333937326e-09,
    -2.977688786993489e-09, 1.0626223956528316e-09, 9.94261597987273e-10, -2.6133503463173703e-10,
    -1.5238587321394553e-10, 3.2649031144581014e-11,
)  # fmt: skip
BESSEL_1 = polynomial(
    0.3893984590258723, -0.009749577193235574, -0.000219235763822095, -1.5038547213988272e-05,
    -1.834910632464841e-06, -3.483852453692518e-07, -1.0000461982682652e-07, -4.313295349480538e-08,
    -2.3444227592954487e-08, -8.403733333878762e-09, 7.0856786907807584e-09, 1.3940524643484214e-08,
    4.868484780028027e-09, -7.407107194668076e-09, -5.612212495021545e-09, 3.0381139423181904e-09,
    3.1460418076069524e-09, -1.0204248953922173e-09, -1.0443479370933936e-09, 2.459411948586366e-10,
    1.5957693735612678e-10, -3.030656951808867e-11,
)  # fmt: skip
# J over its first two factors x**2 - r**2, in 64 - x**2 for x < 8; that of order 1 over x as well.
BESSEL_J0 = polynomial(
    8.793873470842997e-05, 1.1646260988991307e-05, 3.892888086377495e-07, 6.262015717142303e-09,
    6.057514573017454e-11, 3.9544819844731037e-13, 1.8706696530631845e-15, 6.731368833456066e-18,
    1.9088660541034106e-20, 4.3827019405014094e-23, 8.322664904497161e-26, 1.3301797516541216e-28,
    1.8119752675382245e-31, 2.167483936350664e-34, 1.9854861563423016e-37, 2.932152288438267e-40,
)  # fmt: skip
BESSEL_J1 = polynomial(
    4.0232757124382825e-05, 2.3266977186249897e-06, 5.189375913321539e-08, 6.362093552249549e-10,
    5.0083104352970645e-12, 2.7671915094959636e-14, 1.1373503906112813e-16, 3.6235292862554896e-19,
    9.228132256345178e-22, 1.9241124190046065e-24, 3.348131132328397e-27, 4.9397512159262226e-30,
    6.251893857840158e-33, 6.971177726099185e-36, 6.052209759204524e-39, 8.231372752991884e-42,
)  # fmt: skip
# Y less 2/pi log(x) J, in x**2 / 32 - 1 for x < 8; that of order 1 less -2/(pi x), too, and over x.
BESSEL_Y0 = polynomial(
    -0.382250654459425, -0.8284358903604587, 1.6470964788745466, 0.14412632369302475, -1.0775477338215995,
    0.6721770783431679, -0.21895747096171617, 0.046367047681375125, -0.007025741057271394,
    0.0008061586059616365, -7.279541882363696e-05, 5.321318810398909e-06, -3.218507855279216e-07,
    1.6390875014657516e-08, -7.130454889940856e-10, 2.6926937888812835e-11, -8.841755851689731e-13,
)  # fmt: skip
BESSEL_Y1 = polynomial(
    0.07075985882118005, -0.24337743079193114, 0.023367571720993584, 0.23507209206669755, -0.19639839859930425,
    0.07854786922242532, -0.01962875683309942, 0.0034224907399188495, -0.00044381734351151025,
    4.467433012646366e-05, -3.6009998743333114e-06, 2.380493042051246e-07, -1.3153322580085546e-08,
    6.169688029192332e-10, -2.4887492083667258e-11, 8.760001107646768e-13, -2.6955844257496313e-14,
)  # fmt: skip
# P and x Q where J + i Y = sqrt(2 / (pi x)) (P + i Q) exp(i phase), in 128 / x**2 - 1 for x >= 8.
BESSEL_P0 = polynomial(
    0.9994572757882519, -0.0005363673192130062, 6.137416080109398e-06, -2.0527448152093136e-07,
    1.280376144197283e-08, -1.2121185442568061e-09, 1.5500564992646294e-10, -2.4881545981193373e-11,
    4.787005599998592e-12, -1.0656146842882877e-12, 2.4530899609368683e-13, -6.262458688270496e-14,
    3.3397444911225236e-14, -1.2274960532343418e-14,
)  # fmt: skip
BESSEL_Q0 = polynomial(
    -0.12444091103610816, 0.000546651927947541, -1.1817110660714662e-05, 5.684971877747553e-07,
    -4.5349736150719925e-08, 5.1462348091527334e-09, -7.575864060171277e-10, 1.3622397862861987e-10,
    -2.8840436093283766e-11, 6.970120611799195e-12, -1.678296417188428e-12, 4.45834686547469e-13,
    -2.7341175065417273e-13, 1.0636613631725688e-13,
)  # fmt: skip
BESSEL_P1 = polynomial(
    1.0009070262780821, 0.0008988049416705595, -7.959694698438196e-06, 2.45367662182351e-07,
    -1.4708512992512366e-08, 1.3603061601017836e-09, -1.713107432093186e-10, 2.72028503656935e-11,
    -5.191168326556736e-12, 1.148253763522616e-12, -2.6334838827174746e-13, 6.70198583186867e-14,
    -3.545870194054447e-14, 1.299003115345692e-14,
)  # fmt: skip
BESSEL_Q1 = polynomial(
    0.3742149922195918, -0.0007697167057643857, 1.4569614809338943e-05, -6.633568556839079e-07,
    5.1361068166064364e-08, -5.720894259758929e-09, 8.315585825429948e-10, -1.481543275196521e-10,
    3.114403844527117e-11, -7.484379617613161e-12, 1.7968785524529422e-12, -4.761501588623244e-13,
    2.89638150940687e-13, -1.123389510979424e-13,
)  # fmt: skip
# sqrt(x) exp(x) K in (x - 4) / (x + 2) for x >= 1.
BESSEL_K0 = polynomial(
    1.2185953385133905, 0.046607192737334456, -0.016479589795551645, 0.006447012177775347,
    -0.002632699740498511, 0.0011095595271729134, -0.00047775770956410684, 0.00020922432451972022,
    -9.282780916120578e-05, 4.1631981552520796e-05, -1.8836864804096787e-05, 8.586843304250011e-06,
    -3.93930264900665e-06, 1.8194861019270142e-06, -8.445993656809377e-07, 3.878819391270344e-07,
    -1.7917272412261434e-07, 9.404071317617849e-08, -4.71562653237898e-08, 9.322036536452418e-09,
    -1.707227311959108e-09, 1.2174080527520166e-08, -7.398936606951325e-09, -2.9673196321885783e-09,
    1.9772327729717327e-09, 1.2250917441931411e-09, -6.726780613676673e-10,
)  # fmt: skip
BESSEL_K1 = polynomial(
    1.363151890371342, -0.1550246066307997, 0.06498716108524814, -0.028714078450121014, 0.013002147202719722,
    -0.005987127472470081, 0.0027890061151639514, -0.0013106881406936871, 0.0006201470632828253,
    -0.0002950305394440051, 0.00014098707603678038, -6.761803966729377e-05, 3.253082093801252e-05,
    -1.5725585074650853e-05, 7.6211579214597815e-06, -3.6133696003257797e-06, 1.7225883326500532e-06,
    -9.866609327184345e-07, 5.24098191635887e-07, -6.316549850056007e-08, -9.551836497148486e-09,
    -1.6452810840744447e-07, 1.0463164470458453e-07, 4.538525156732445e-08, -3.064186229520703e-08,
    -1.727672011110936e-08, 9.772256234354618e-09,
)  # fmt: skip
# exp(u) Ai, u = 2/3 x**1.5, in sqrt(x) - 1 for x <= 4; and times x**0.25, in 32 / (3 u) - 1 beyond.
AIRY_NEAR = polynomial(
    0.2635136447491401, -0.09292648842274995, 0.031197423692265896, 0.00044385510274807773,
    -0.012055734445191459, 0.011819477557610569, -0.007132029781479603, 0.002669604529633478,
    -0.0001252516295780253, -0.0007002189580712929, 0.0006235962530848653, -0.00031277036674056823,
    8.028926238340744e-05, 1.938627707752502e-05, -3.5102112834142566e-05, 2.14039158643833e-05,
    -7.236824778219005e-06, 1.8301096906547521e-07, 1.4838967952359523e-06, -1.02678624326476e-06,
    4.107717934358911e-07, -9.539507944975157e-08, -4.7639078971292415e-08, 7.070787623160721e-08,
    -2.1609403121902392e-08, -6.795270150513027e-09, 3.682322509749859e-09,
)  # fmt: skip
AIRY_FAR = polynomial(
    0.28034253589031466, -0.001674820845954529, 7.134487708653608e-05, -5.425234571049488e-06,
    5.742468001440989e-07, -7.609857781552275e-08, 1.1913932857386026e-08, -2.1252406554234326e-09,
    4.21487774309148e-10, -9.131626312080969e-11, 2.131804093458116e-11, -5.310114376133622e-12,
    1.420082639651128e-12, -3.986580725637428e-13, 9.727207693563671e-14, -2.6814590652060082e-14,
    1.830402897032954e-14, -6.571072089376152e-15,
)  # fmt: skip
# Ai over its first two factors x - r, in -x - 2.25 from -4.5 to 0.
AIRY_MIDDLE = polynomial(
    0.3803866422148647, 0.23237494095671654, -0.013077838405155758, -0.04445536464565855, -0.01009180993456391,
    0.0019567374991300832, 0.0012149694788811097, 0.00011280415863584833, -4.7038690883782387e-05,
    -1.3699347261942218e-05, -2.626735468613711e-07, 4.786100292930464e-07, 8.114161450245926e-08,
    -3.0336487406393324e-09, -2.7046956934966203e-09, -2.8447056733451486e-10, 2.746741441717818e-11,
    9.712199176369675e-12, 6.186495996474045e-13, -1.1302993622637652e-13, -2.4162247373842534e-14,
    -7.510332043531891e-16, 3.1431864802343864e-16, 4.034188768876758e-17, -1.1788560169341782e-18,
    -4.333984731890423e-19,
)  # fmt: skip
# P and u Q where Ai - i Bi = |x|**-0.25 (P + i Q) exp(i (u - pi / 4)), in 81 / u**2 - 1 below -4.5.
AIRY_P = polynomial(
    0.5639356188026826, -0.000249531400616058, 4.20933774722417e-06, -2.0348979807201052e-07,
    1.7751533994444506e-08, -2.276324881003622e-09, 3.832145864192579e-10, -7.899632079936055e-11,
    1.9274935554457663e-11, -5.374436740666287e-12, 1.3328639067130098e-12, -3.5925407578405215e-13,
    3.449113245705641e-13, -1.561701261908845e-13,
)  # fmt: skip
AIRY_Q = polynomial(
    -0.03892437966130795, 0.0002469703809893358, -7.869305620017746e-06, 5.416603828556395e-07,
    -5.978069240276903e-08, 9.099158481573683e-09, -1.7482375303461117e-09, 4.006254705778739e-10,
    -1.0730815924549769e-10, 3.248057658645864e-11, -8.04340784877694e-12, 2.1286045362438114e-12,
    -2.5974698638658886e-12, 1.2440748806123398e-12,
)  # fmt: skip


def harmonic(k):
    return sum(1 / j for j in range(1, k + 1))


# Power series in x**2 / 4: I, the latter over x / 2, and what K adds to products of I with logarithms.
I0_SERIES = polynomial(*(1 / factorial(k) ** 2 for k in range(15)))
I1_SERIES = polynomial(*(1 / (factorial(k) * factorial(k + 1)) for k in range(15)))
K0_SERIES = polynomial(*(harmonic(k) / factorial(k) ** 2 for k in range(15)))
K1_SERIES = polynomial(
    *((harmonic(k) + harmonic(k + 1)) / (factorial(k) * factorial(k + 1)) for k in range(15))
)


def product_of_steps(first):
    """``1 / (first (first + 1) (first + 3) (first + 4) ...)`` with two factors for each further coefficient."""
    return [1 / prod((first + 3 * j) * (first + 3 * j + 1) for j in range(k)) for k in range(11)]


# Power series in x**3: Ai is the first one less x times the second one.
AIRY_EVEN = polynomial(*(0.3550280538878172 * factor for factor in product_of_steps(2)))
AIRY_ODD = polynomial(*(0.2588194037928068 * factor for factor in product_of_steps(3)))

# --- modified Bessel functions ---------------------------------------------------------------------------------


def bessel_0(x, scaled):
    """The function of order 0, times ``exp(-|x|)`` if it is `scaled`: a power series, the other one from 8 on."""
    a = m.abs(x)
    z = m.where(a < c(8), c(0.25) * a * a, c(0))
    series = c(1)
    for k in range(25, 0, -1):
        series = c(1) + series * z / c(k * k)
    far = m.where(a < c(8), c(8), a)
    wide = BESSEL_0(c(16) / far - c(1)) / m.sqrt(far)
    if scaled:
        return m.where(a < c(8), series * m.exp(-a), wide)
    root = m.exp(c(0.5) * a)
    return m.where(a < c(8), series, m.where(a == c(INF), a, wide * root * root))


def bessel_1(x, scaled):
    """The same of order 1, which is odd."""
    a = m.abs(x)
    z = m.where(a < c(8), c(0.25) * a * a, c(0))
    series = c(1)
    for k in range(25, 0, -1):
        series = c(1) + series * z / c(k * (k + 1))
    series = c(0.5) * a * series
    far = m.where(a < c(8), c(8), a)
    wide = BESSEL_1(c(16) / far - c(1)) / m.sqrt(far)
    root = m.exp(c(0.5) * a)
    grown = m.where(a == c(INF), a, wide * root * root)
    y = m.where(a < c(8), series * m.exp(-a), wide) if scaled else m.where(a < c(8), series, grown)
    return m.where(x < c(0), -y, y)


def bessel_k(x, order, scaled):
    """The second kind of order 0 or 1, times ``exp(x)`` if it is `scaled`: a power series, the other one from 1 on."""
    low = m.where(x < c(1), x, c(1))
    z = c(0.25) * low * low
    log = m.log(low) + c(EULER_LESS_LN_2)
    far = m.where(x < c(1), c(1), x)
    limited = m.where(far > c(FAR), c(FAR), far)
    t = (limited - c(4)) / (limited + c(2))
    if order == 0:
        near = K0_SERIES(z) - log * I0_SERIES(z)
        wide = BESSEL_K0(t) / m.sqrt(far)
    else:
        near = c(1) / low + c(0.5) * low * (log * I1_SERIES(z) - c(0.5) * K1_SERIES(z))
        wide = BESSEL_K1(t) / m.sqrt(far)
    root = m.exp(c(-0.5) * far)  # its square may be denormal where the product is not
    y = m.where(x < c(1), near * m.exp(low), wide) if scaled else m.where(x < c(1), near, wide * root * root)
    return m.where(x == c(0), c(INF), y)


# --- Bessel functions ------------------------------------------------------------------------------------------


def bessel_j_near(a, order):
    """The first kind for ``0 <= a < 8``: a power series, from 1 on a product with the distances to its zeros."""
    (low, low_rest), (high, high_rest) = J0_ZEROS if order == 0 else J1_ZEROS
    square = a * a
    z = m.where(a < c(1), c(-0.25) * square, c(0))
    t = c(64) - square
    first = ((a - c(low)) - c(low_rest)) * (a + c(low + low_rest))
    second = ((a - c(high)) - c(high_rest)) * (a + c(high + high_rest))
    if order == 0:
        return m.where(a < c(1), I0_SERIES(z), first * second * BESSEL_J0(t))
    return a * m.where(a < c(1), c(0.5) * I1_SERIES(z), first * second * BESSEL_J1(t))


def bessel_far(a, order, second):
    """Either kind for ``a >= 8``: a wave whose phase is ``a - pi / 4``, for order 1 a quarter of a turn less."""
    u = c(8) / a
    t = c(2) * u * u - c(1)
    sine, cosine = m.sin(a), m.cos(a)
    rising, falling = sine + cosine, sine - cosine
    if order == 0:
        p, q = BESSEL_P0(t), BESSEL_Q0(t) / a
        wave = p * falling + q * rising if second else p * rising - q * falling
    else:
        p, q = BESSEL_P1(t), BESSEL_Q1(t) / a
        wave = q * falling - p * rising if second else p * falling + q * rising
    return c(ROOT_OF_INVERSE_PI) * wave / m.sqrt(a)


def bessel_j(x, order):
    """The first kind of order 0 or 1."""
    a = m.abs(x)
    near = bessel_j_near(m.where(a < c(8), a, c(0)), order)
    far = bessel_far(m.where(a < c(8), c(8), a), order, False)
    y = m.where(a < c(8), near, far)
    return y if order == 0 else m.copysign(c(1), x) * y


def bessel_y(x, order):
    """The second kind of order 0 or 1: below 2 a power series with a logarithm, up to 8 a polynomial with one."""
    low = m.where(x < c(8), x, c(8))
    square = low * low
    t = c(1 / 32) * square - c(1)
    z = m.where(low < c(2), c(-0.25) * square, c(0))
    log, kept = m.log(low), m.where(low < c(2), c(EULER_LESS_LN_2), c(0))
    product = c(TWO_OVER_PI) * (log + kept) * bessel_j_near(low, order)
    if order == 0:
        near = product + m.where(low < c(2), c(-TWO_OVER_PI) * K0_SERIES(z), BESSEL_Y0(t))
    else:
        rest = low * m.where(low < c(2), c(-0.25 * TWO_OVER_PI) * K1_SERIES(z), BESSEL_Y1(t))
        near = product + (rest - c(TWO_OVER_PI) / low)
    far = bessel_far(m.where(x < c(8), c(8), x), order, True)
    return m.where(x == c(0), c(-INF), m.where(x < c(8), near, far))


def spherical_bessel_j0(x):
    return m.where(x == c(0), c(1), m.where(m.abs(x) == c(INF), c(0), m.sin(x) / x))


# --- Airy's function -------------------------------------------------------------------------------------------


def airy_exponent(a):
    """``2/3 a**1.5`` and what rounding loses of it."""
    s = m.sqrt(a)
    lost = m.where(s == c(0), c(0), m.fma(-s, s, a) / (c(2) * s))
    power = a * s
    lost = m.fma(a, s, -power) + a * lost
    u = c(2) * power / c(3)
    return u, (m.fma(c(-3), u, c(2) * power) + c(2) * lost) / c(3), s


def airy_decay(x):
    """Ai for ``0 <= x``."""
    a = m.where(x > c(1000), c(1000), x)
    u, lost, s = airy_exponent(a)
    low, high = m.where(a < c(4), s, c(2)), m.where(a < c(4), c(16 / 3), u)
    near = AIRY_NEAR(low - c(1))
    far = AIRY_FAR(c(32 / 3) / high - c(1)) / m.sqrt(m.where(a < c(4), c(2), s))
    root = m.exp(c(-0.5) * u)
    return m.where(a < c(4), near, far) * (c(1) - lost) * root * root


def airy_wave(a):
    """Ai at ``-a`` for ``a >= 4.5``."""
    u, lost, s = airy_exponent(a)
    t = c(9) / u
    t = t * t - c(1)
    sine, cosine, turn, kept = m.sin(u), m.cos(u), m.sin(lost), m.cos(lost)
    sine, cosine = sine * kept + cosine * turn, cosine * kept - sine * turn
    wave = AIRY_P(t) * (sine + cosine) - AIRY_Q(t) / u * (sine - cosine)
    return c(SQRT_HALF) * wave / m.sqrt(s)


def airy_ai(x):
    """Airy's function of the first kind."""
    (low, low_rest), (high, high_rest) = AIRY_ZEROS
    b = m.where((x < c(0)) & (x > c(-4.5)), x, c(0))
    factors = ((b - c(low)) - c(low_rest)) * ((b - c(high)) - c(high_rest))
    cube = m.where(b > c(-1.5), b * b * b, c(0))
    series = AIRY_EVEN(cube) - b * AIRY_ODD(cube)
    middle = m.where(b > c(-1.5), series, factors * AIRY_MIDDLE(-b - c(2.25)))
    wave = airy_wave(m.where(x > c(-4.5), c(4.5), -x))
    y = m.where(x >= c(0), airy_decay(m.where(x < c(0), c(0), x)), m.where(x > c(-4.5), middle, wave))
    return m.where(m.abs(x) == c(INF), c(NAN), y)
