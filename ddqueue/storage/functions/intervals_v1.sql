-- What the views need for intervals, as expressions that Postgres puts into the query that uses them.

-- Student's t: the 0.975 quantile, also for degrees of freedom that are no integer. Its logarithm is a smooth function of
-- 1 / degrees of freedom; this polynomial meets it to one part in 100 000, from 1 to infinity (a test compares).
CREATE FUNCTION t_975(degrees_of_freedom double precision) RETURNS double precision
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN degrees_of_freedom >= 1 THEN exp(
        0.672921 + (1.210896 + (0.698876 + (0.205672 + (-0.390535 + (0.165655 - 0.021390
        / degrees_of_freedom) / degrees_of_freedom) / degrees_of_freedom) / degrees_of_freedom) / degrees_of_freedom)
        / degrees_of_freedom
    ) END;

COMMENT ON FUNCTION t_975 IS 'Student''s t that a 95% interval needs; null below one degree of freedom';

-- By how much an interval is widened when the repeats decided themselves how many they are (sweeps.measure): who stops because
-- an interval looks narrow stops too often when it is narrow by luck. domain/statistics.py has the same number, LOOKING_COSTS,
-- and says where it comes from.
CREATE FUNCTION looking_costs(measure jsonb) RETURNS double precision
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE
        WHEN (measure #>> '{repeats,min}')::integer < (measure #>> '{repeats,max}')::integer THEN 1.15 ELSE 1
    END;

COMMENT ON FUNCTION looking_costs IS 'factor that widens an interval over repeats which could stop by themselves; else 1';

-- The sample standard deviation of n values, from their sum and the sum of their squares: what is left of groups of values
-- whose means and deviations are known. Rounding may bring the difference below zero where all values are equal.
CREATE FUNCTION sd_of_sums(n double precision, total double precision, squares double precision) RETURNS double precision
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN n > 1 THEN sqrt(greatest(squares - total ^ 2 / n, 0) / (n - 1)) END;

COMMENT ON FUNCTION sd_of_sums IS 'sample standard deviation of n values from their sum and sum of squares; null below two';

-- Half the 95% interval of ln(a / b) of two means, from the relative variances of both (that of the mean: (sd / mean)^2 / n,
-- the delta method). Welch, Biometrika 34 (1947), for the degrees of freedom; two means without any spread have an interval
-- without width.
CREATE FUNCTION ratio_half_width(
    variance_a double precision, n_a double precision, variance_b double precision, n_b double precision
) RETURNS double precision
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE
        WHEN variance_a + variance_b = 0 THEN 0
        WHEN n_a > 1 AND n_b > 1 THEN
            t_975((variance_a + variance_b) ^ 2 / (variance_a ^ 2 / (n_a - 1) + variance_b ^ 2 / (n_b - 1)))
            * sqrt(variance_a + variance_b)
    END;

COMMENT ON FUNCTION ratio_half_width IS 'half the 95% interval of the logarithm of a ratio of two means';
